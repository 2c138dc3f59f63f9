//! The output of saquery, as records.

use std::collections::BTreeMap;
use std::process::Output;

/// A record: its lines as names and values, in order. Lines that are no field have an empty name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Record(pub Vec<(String, String)>);

impl Record {
    /// The value of a field.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// A field with a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let value = self.value(name)?;
        match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }
    }

    /// Replaces a value. True if the record has the field and its value was different.
    pub(crate) fn set(&mut self, name: &str, value: impl ToString) -> bool {
        let field = self.0.iter_mut().find(|(field, _)| field == name);
        field.is_some_and(|(_, old)| std::mem::replace(old, value.to_string()) != *old)
    }

    /// True if the title of the record starts with `title`.
    pub(crate) fn is(&self, title: &str) -> bool {
        self.0.first().is_some_and(|(_, line)| line.starts_with(title))
    }
}

/// The answer to a query.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The exit code and saquery's error messages; empty on success.
    pub error: String,
    /// The records, in no particular order.
    pub records: Vec<Record>,
}

impl Answer {
    /// Parses the output of saquery.
    pub(crate) fn of(output: &Output) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        // Warnings contain process IDs; formats of values are compared with the records.
        let messages =
            errors.lines().filter(|line| !line.starts_with("ibwarn") && !line.is_empty());
        let code = output.status.code();
        let code = if code == Some(0) { Vec::new() } else { vec![format!("exit {code:?}")] };
        let error: Vec<String> = code.into_iter().chain(messages.map(str::to_owned)).collect();
        Self { error: error.join("; "), records: records(&text) }
    }

    /// The records, and the number of each.
    pub(crate) fn counted(&self) -> BTreeMap<&Record, usize> {
        let mut counted = BTreeMap::new();
        for record in &self.records {
            *counted.entry(record).or_default() += 1;
        }
        counted
    }
}

/// The records of a text; each begins with a line that is not indented.
fn records(text: &str) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let field = field(line.trim());
        match records.last_mut() {
            Some(record) if line.starts_with('\t') => record.0.push(field),
            _ => records.push(Record(vec![field])),
        }
    }
    records
}

fn field(line: &str) -> (String, String) {
    match line.split_once("..") {
        Some((name, value)) => {
            (name.trim_end_matches(':').to_owned(), value.trim_start_matches('.').to_owned())
        }
        None => (String::new(), line.to_owned()),
    }
}
