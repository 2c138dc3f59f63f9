//! Incidents and losses as text: the file in the cache folder, and what a standby gets.

use super::book::Book;
use super::incident::Incident;
use super::losses::Register;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Version of the format; texts of others are ignored.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    losses: Register,
    open: Vec<Incident>,
    closed: Vec<Incident>,
}

/// The text of a book and its register.
pub fn emit(book: &Book, losses: &Register) -> String {
    let list = book.list();
    let stored = Stored {
        version: VERSION,
        losses: losses.clone(),
        open: owned(&list.open),
        closed: owned(&list.closed),
    };
    // Its maps have texts as keys, and its numbers are integers.
    let text = serde_json::to_string_pretty(&stored);
    text.map_or_else(|_| String::new(), |text| text + "\n")
}

fn owned(incidents: &[Arc<Incident>]) -> Vec<Incident> {
    incidents.iter().map(|incident| Incident::clone(incident)).collect()
}

/// The book and the register of a text.
///
/// # Errors
/// The text is malformed, or of another version.
pub fn parse(text: &str) -> Result<(Book, Register), String> {
    let stored: Stored = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if stored.version != VERSION {
        return Err(format!("version {} instead of {VERSION}", stored.version));
    }
    Ok((Book::restored(stored.open, stored.closed), stored.losses))
}
