//! Text → statements: beginnings and ends of sections, fields, rules of `qos-ulps`.

use crate::config::span::Span;
use crate::config::text_file::without_comment;

/// Sections, each with the section that contains it.
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

/// Fields, each with the sections that may contain it.
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

/// Fields of a rule that refer to its level.
pub(super) const LEVEL_FIELDS: [&str; 2] = ["qos-level-name", "qos-level-sn"];

/// Protocols of the rules of `qos-ulps`.
pub(super) const ULPS: [&str; 7] = ["default", "sdp", "rds", "srp", "iser", "ipoib", "any"];

/// A statement. Section names and fields come with the span of their keyword.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Statement<'a> {
    Open(&'static str, Span<'a>),
    Close(&'static str, Span<'a>),
    /// A field with its keyword and its value, one part for each line.
    Field(&'static str, Span<'a>, Vec<Span<'a>>),
    /// A rule of `qos-ulps`, including its SL.
    Ulp(Span<'a>),
    /// Text that is none of these.
    Stray(Span<'a>),
}

/// Splits a file into statements.
pub(super) fn statements(text: &str) -> Vec<Statement<'_>> {
    let mut scanner = Scanner { done: Vec::new(), in_ulps: false };
    for (number, line) in (1..).zip(text.lines()) {
        let code = without_comment(line);
        scanner.line(Span::new(code, number));
    }
    scanner.done
}

struct Scanner<'a> {
    done: Vec<Statement<'a>>,
    in_ulps: bool,
}

/// A keyword at the beginning of a text.
enum Start {
    Open(&'static str),
    Close(&'static str),
    Field(&'static str),
}

impl<'a> Scanner<'a> {
    fn line(&mut self, line: Span<'a>) {
        let mut rest = line.trim();
        while !rest.is_empty() {
            rest = self.statement(rest).trim();
        }
    }

    /// Reads one statement and returns the rest of the line.
    fn statement(&mut self, text: Span<'a>) -> Span<'a> {
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
                let (word, rest) = text.split_at(length);
                let (_, value) = rest.split_once(':');
                let value = value.unwrap_or(rest.after());
                // Descriptions may contain keywords.
                let length = if name == "use" { value.text().len() } else { extent(value.text()) };
                let (value, rest) = value.split_at(length);
                let parts = if value.trim().is_empty() { vec![] } else { vec![value.trim()] };
                self.done.push(Statement::Field(name, word, parts));
                rest
            }
            _ if self.in_ulps => self.ulp(text),
            _ => self.continuation(text),
        }
    }

    /// Reads a rule of `qos-ulps`, which ends after the word that follows its first colon.
    fn ulp(&mut self, text: Span<'a>) -> Span<'a> {
        let (_, Some(after)) = text.split_once(':') else {
            let (rule, rest) = text.split_at(extent(text.text()));
            self.done.push(Statement::Ulp(rule.trim()));
            return rest;
        };
        let sl = after.text().trim_start();
        let skipped = after.text().len() - sl.len();
        let word = sl.find(char::is_whitespace).unwrap_or(sl.len());
        let colon = text.text().len() - after.text().len();
        let (rule, rest) = text.split_at(colon + skipped + word);
        self.done.push(Statement::Ulp(rule.trim()));
        rest
    }

    /// Reads text without a keyword, which may continue the list of the previous statement.
    fn continuation(&mut self, text: Span<'a>) -> Span<'a> {
        let (part, rest) = text.split_at(extent(text.text()));
        let part = part.trim();
        match self.done.last_mut() {
            Some(Statement::Field(name, _, parts))
                if *name != "use" && continues_list(parts, part) =>
            {
                parts.push(part);
            }
            _ => self.done.push(Statement::Stray(part)),
        }
        rest
    }
}

/// True if `part` continues a list: a comma or the dash of a range is between them, or the list is
/// empty.
fn continues_list(parts: &[Span<'_>], part: Span<'_>) -> bool {
    let Some(last) = parts.last() else { return true };
    last.text().ends_with([',', '-']) || part.text().starts_with([',', '-'])
}

/// The keyword at the beginning of `text`, and its length in bytes.
fn start(text: &str) -> Option<(Start, usize)> {
    let end = text.find(|c: char| c.is_whitespace() || c == ':').unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    if !after.trim_start().starts_with(':') {
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

fn section(word: &str) -> Option<&'static str> {
    SECTIONS.iter().map(|(name, _)| *name).find(|name| name.eq_ignore_ascii_case(word))
}

/// Length of a value in bytes: it ends before the next keyword that is not within quotes.
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

    fn listed(text: &str) -> Vec<String> {
        statements(text)
            .into_iter()
            .map(|statement| match statement {
                Statement::Open(name, _) => format!("+{name}"),
                Statement::Close(name, _) => format!("-{name}"),
                Statement::Field(name, at, parts) => {
                    let parts: Vec<_> = parts.iter().map(Span::text).collect();
                    format!("{name}@{}={}", at.column(), parts.join("|"))
                }
                Statement::Ulp(rule) => format!("<{}>", rule.text()),
                Statement::Stray(text) => format!("?{}", text.text()),
            })
            .collect()
    }

    #[test]
    fn a_file_may_be_one_line() {
        let text = "qos-levels qos-level name: DEFAULT sl: 0 end-qos-level end-qos-levels";
        let wanted = [
            "+qos-levels",
            "+qos-level",
            "name@22=DEFAULT",
            "sl@36=0",
            "-qos-level",
            "-qos-levels",
        ];
        assert_eq!(listed(text), wanted);
    }

    #[test]
    fn descriptions_take_their_line_and_lists_continue() {
        let text =
            "use: sl: 4 end-qos-level  # why\nport-guid: 1,\n 2 , # two\n\n3-4\n5\nName :\"a\n";
        let wanted = ["use@1=sl: 4 end-qos-level", "port-guid@1=1,|2 ,|3-4", "?5", "name@1=\"a"];
        assert_eq!(listed(text), wanted);
        assert_eq!(listed("to:*\n sl : \n 3"), ["to@1=*", "sl@2=3"]);
        assert_eq!(listed("source: \"a sl: b\", c sl: 1"), ["source@1=\"a sl: b\", c", "sl@22=1"]);
    }

    #[test]
    fn rules_end_after_their_sl() {
        let text = "qos-ulps default :0 sdp, port-num 1-2 : 3\nany,pkey 1,2:4 ipoib\nEND-qos-ulps";
        let wanted = [
            "+qos-ulps",
            "<default :0>",
            "<sdp, port-num 1-2 : 3>",
            "<any,pkey 1,2:4>",
            "<ipoib>",
            "-qos-ulps",
        ];
        assert_eq!(listed(text), wanted);
    }
}
