//! Text → statements: section words, keywords with their values, rules of `qos-ulps`.

use crate::config::piece::Piece;

/// Sections, each with the one that it stands in.
pub(super) const SECTIONS: [(&str, Option<&str>); 12] = [
    ("qos-ulps", None),
    ("port-groups", None),
    ("port-group", Some("port-groups")),
    ("qos-setup", None),
    ("vlarb-tables", Some("qos-setup")),
    ("vlarb-scope", Some("vlarb-tables")),
    ("sl2vl-tables", Some("qos-setup")),
    ("sl2vl-scope", Some("sl2vl-tables")),
    ("qos-levels", None),
    ("qos-level", Some("qos-levels")),
    ("qos-match-rules", None),
    ("qos-match-rule", Some("qos-match-rules")),
];

/// Keywords, each with the sections in which it may stand.
pub(super) const FIELDS: [(&str, &[&str]); 26] = [
    ("name", &["port-group", "qos-level"]),
    ("use", &["port-group", "qos-level", "qos-match-rule"]),
    ("port-guid", &["port-group"]),
    ("port-name", &["port-group"]),
    ("pkey", &["port-group", "qos-level", "qos-match-rule"]),
    ("partition", &["port-group"]),
    ("node-type", &["port-group"]),
    ("group", &["vlarb-scope", "sl2vl-scope"]),
    ("across", &["vlarb-scope", "sl2vl-scope"]),
    ("vlarb-high", &["vlarb-scope"]),
    ("vlarb-low", &["vlarb-scope"]),
    ("vl-high-limit", &["vlarb-scope"]),
    ("from", &["sl2vl-scope"]),
    ("to", &["sl2vl-scope"]),
    ("across-from", &["sl2vl-scope"]),
    ("across-to", &["sl2vl-scope"]),
    ("sl2vl-table", &["sl2vl-scope"]),
    ("sl", &["qos-level"]),
    ("mtu-limit", &["qos-level"]),
    ("rate-limit", &["qos-level"]),
    ("packet-life", &["qos-level"]),
    ("path-bits", &["qos-level"]),
    ("qos-class", &["qos-match-rule"]),
    ("service-id", &["qos-match-rule"]),
    ("source", &["qos-match-rule"]),
    ("destination", &["qos-match-rule"]),
];

/// Keywords by which a rule names its level.
pub(super) const LEVEL_FIELDS: [&str; 2] = ["qos-level-name", "qos-level-sn"];

/// First words of the rules of `qos-ulps`.
pub(super) const ULPS: [&str; 7] = ["default", "sdp", "rds", "srp", "iser", "ipoib", "any"];

/// A statement of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Statement<'a> {
    /// A section begins.
    Open(&'static str, Piece<'a>),
    /// A section ends.
    Close(&'static str, Piece<'a>),
    /// A keyword, its place, and the parts of its value, one for each line with some of it.
    Field(&'static str, Piece<'a>, Vec<Piece<'a>>),
    /// A rule of `qos-ulps`, up to and with its SL.
    Ulp(Piece<'a>),
    /// What is none of these.
    Stray(Piece<'a>),
}

/// Takes a file apart.
pub(super) fn statements(text: &str) -> Vec<Statement<'_>> {
    let mut scanner = Scanner { done: Vec::new(), in_ulps: false };
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split('#').next().unwrap_or_default();
        scanner.line(Piece::new(code, number));
    }
    scanner.done
}

struct Scanner<'a> {
    done: Vec<Statement<'a>>,
    in_ulps: bool,
}

/// What stands at the beginning of a piece of text.
enum Start {
    Open(&'static str),
    Close(&'static str),
    Field(&'static str),
}

impl<'a> Scanner<'a> {
    fn line(&mut self, line: Piece<'a>) {
        let mut rest = line.trim();
        while !rest.is_empty() {
            rest = self.statement(rest).trim();
        }
    }

    /// Takes one statement; what is left of the line.
    fn statement(&mut self, text: Piece<'a>) -> Piece<'a> {
        match start(text.text()) {
            Some((Start::Open(name), length)) => {
                let (word, rest) = text.split_at(length);
                self.in_ulps |= name == "qos-ulps";
                self.done.push(Statement::Open(name, word));
                rest
            }
            Some((Start::Close(name), length)) => {
                let (word, rest) = text.split_at(length);
                self.in_ulps &= name != "qos-ulps";
                self.done.push(Statement::Close(name, word));
                rest
            }
            Some((Start::Field(name), length)) if !self.in_ulps => {
                let (word, behind) = text.split_at(length);
                let (_, value) = behind.split_once(':');
                let value = value.unwrap_or(behind.behind());
                // Descriptions may have any word in them.
                let length = if name == "use" { value.text().len() } else { extent(value.text()) };
                let (value, rest) = value.split_at(length);
                let parts = if value.trim().is_empty() { vec![] } else { vec![value.trim()] };
                self.done.push(Statement::Field(name, word, parts));
                rest
            }
            _ if self.in_ulps => self.ulp(text),
            _ => self.more(text),
        }
    }

    /// A rule of `qos-ulps`: up to the word behind its first colon.
    fn ulp(&mut self, text: Piece<'a>) -> Piece<'a> {
        let (_, Some(behind)) = text.split_once(':') else {
            let (rule, rest) = text.split_at(extent(text.text()));
            self.done.push(Statement::Ulp(rule.trim()));
            return rest;
        };
        let sl = behind.text().trim_start();
        let skipped = behind.text().len() - sl.len();
        let word = sl.find(char::is_whitespace).unwrap_or(sl.len());
        let colon = text.text().len() - behind.text().len();
        let (rule, rest) = text.split_at(colon + skipped + word);
        self.done.push(Statement::Ulp(rule.trim()));
        rest
    }

    /// Text that begins with no keyword: it goes on with a list, if there is one to go on with.
    fn more(&mut self, text: Piece<'a>) -> Piece<'a> {
        let (part, rest) = text.split_at(extent(text.text()));
        let part = part.trim();
        match self.done.last_mut() {
            Some(Statement::Field(name, _, parts)) if *name != "use" && goes_on(parts, part) => {
                parts.push(part);
            }
            _ => self.done.push(Statement::Stray(part)),
        }
        rest
    }
}

/// True if a list goes on with `part`: there is a comma between, or there was nothing yet.
fn goes_on(parts: &[Piece<'_>], part: Piece<'_>) -> bool {
    let Some(last) = parts.last() else { return true };
    last.text().ends_with(',') || part.text().starts_with(',')
}

/// The keyword at the beginning of `text` and its length.
fn start(text: &str) -> Option<(Start, usize)> {
    let end = text.find(|c: char| c.is_whitespace() || c == ':').unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    let section = |word: &str| {
        SECTIONS.iter().map(|(name, _)| *name).find(|name| name.eq_ignore_ascii_case(word))
    };
    if !behind.trim_start().starts_with(':') {
        if let Some(name) = section(word) {
            return Some((Start::Open(name), end));
        }
        let ended = word.get(..4).filter(|head| head.eq_ignore_ascii_case("end-"))?;
        return section(&word[ended.len()..]).map(|name| (Start::Close(name), end));
    }
    let fields = FIELDS.iter().map(|(name, _)| *name).chain(LEVEL_FIELDS);
    let name = fields.into_iter().find(|name| name.eq_ignore_ascii_case(word))?;
    Some((Start::Field(name), end))
}

/// How far a value goes: up to the next keyword that is not within quotes.
fn extent(value: &str) -> usize {
    let mut quoted = false;
    let mut before = ' ';
    for (at, c) in value.char_indices() {
        if c == '"' {
            quoted = !quoted;
        }
        if !quoted && at > 0 && before.is_whitespace() && start(&value[at..]).is_some() {
            return at;
        }
        before = c;
    }
    value.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let tell = |statement| match statement {
            Statement::Open(name, _) => format!("+{name}"),
            Statement::Close(name, _) => format!("-{name}"),
            Statement::Field(name, at, parts) => {
                let parts: Vec<_> = parts.iter().map(Piece::text).collect();
                format!("{name}@{}={}", at.column(), parts.join("|"))
            }
            Statement::Ulp(rule) => format!("<{}>", rule.text()),
            Statement::Stray(piece) => format!("?{}", piece.text()),
        };
        statements(text).into_iter().map(tell).collect()
    }

    #[test]
    fn a_file_may_stand_on_one_line() {
        let text = "qos-levels qos-level name: DEFAULT sl: 0 end-qos-level end-qos-levels";
        let wanted = [
            "+qos-levels",
            "+qos-level",
            "name@22=DEFAULT",
            "sl@36=0",
            "-qos-level",
            "-qos-levels",
        ];
        assert_eq!(told(text), wanted);
    }

    #[test]
    fn descriptions_take_their_line_and_lists_go_on() {
        let text =
            "use: sl: 4 end-qos-level  # why\nport-guid: 1,\n 2 , # two\n\n3-4\n5\nName :\"a\n";
        let wanted = ["use@1=sl: 4 end-qos-level", "port-guid@1=1,|2 ,|3-4", "?5", "name@1=\"a"];
        assert_eq!(told(text), wanted);
        assert_eq!(told("to:*\n sl : \n 3"), ["to@1=*", "sl@2=3"]);
        assert_eq!(told("source: \"a sl: b\", c sl: 1"), ["source@1=\"a sl: b\", c", "sl@22=1"]);
    }

    #[test]
    fn rules_end_with_their_sl() {
        let text = "qos-ulps default :0 sdp, port-num 1-2 : 3\nany,pkey 1,2:4 ipoib\nEND-qos-ulps";
        let wanted = [
            "+qos-ulps",
            "<default :0>",
            "<sdp, port-num 1-2 : 3>",
            "<any,pkey 1,2:4>",
            "<ipoib>",
            "-qos-ulps",
        ];
        assert_eq!(told(text), wanted);
    }
}
