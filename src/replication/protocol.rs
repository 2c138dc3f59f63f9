//! Messages between two instances: JSON objects, each after its length in bytes as a big-endian
//! u32.
//!
//! Both sides send [`ReplicationMessage::Hello`] first, and again when something in it changes. A message or
//! field that a version does not know is ignored; what cannot be ignored gets another [`VERSION`],
//! and instances of different versions exchange nothing but their greetings.

use crate::replication::comparison::Description;
use crate::sa::registry::replica::{Page, ReplicaPosition};
use serde::{Deserialize, Serialize};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Version of the protocol.
pub const VERSION: u32 = 1;

/// Maximum length of a message in bytes: the neighbors file of 48,000 ports has 5 MB.
const MAX_LENGTH: u32 = 64 << 20;

/// A message. It has no `Debug`, because it contains keys.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum ReplicationMessage {
    Hello(Hello),
    /// Asks a master for its state.
    Follow {
        /// How far the sender has its registry already.
        since: Option<ReplicaPosition>,
    },
    /// Asks for no more.
    Unfollow,
    /// Part of the registry.
    Registry(Page),
    /// The files of the master.
    Files(Files),
    /// The open incidents of the master, in the format of their file.
    Incidents {
        text: String,
    },
    /// Keeps the connection alive.
    Alive,
    #[serde(other)]
    Unknown,
}

/// Identity and state of the sender.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    /// Name and version of the program.
    pub software: String,
    pub port_guid: u64,
    pub subnet_prefix: u64,
    /// The state in SMInfo as a word, such as `MASTER`.
    pub state: String,
    pub configuration: Description,
}

/// Contents of the files in the cache folder, in OpenSM's formats. It has no `Debug`, because it
/// contains M_Keys.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Files {
    pub guid2lid: String,
    pub guid2mkey: String,
    pub neighbors: String,
}

fn invalid(text: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Sends a message.
///
/// # Errors
/// The stream fails, or the message is too long.
pub async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &ReplicationMessage,
) -> io::Result<()> {
    let text = serde_json::to_vec(message).map_err(invalid)?;
    let length = u32::try_from(text.len()).ok().filter(|&length| length <= MAX_LENGTH);
    let length = length.ok_or_else(|| invalid("the message is too long to be sent"))?;
    stream.write_u32(length).await?;
    stream.write_all(&text).await?;
    stream.flush().await
}

/// Receives a message. Memory is allocated as its bytes arrive.
///
/// # Errors
/// The stream ends or fails, or the message is too long or malformed.
pub async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<ReplicationMessage> {
    let length = stream.read_u32().await?;
    if length > MAX_LENGTH {
        return Err(invalid(format!("the peer sends a message of {length} bytes")));
    }
    let mut text = Vec::new();
    stream.take(length.into()).read_to_end(&mut text).await?;
    if text.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // An error of serde_json may quote a key.
    serde_json::from_slice(&text).map_err(|_| invalid("the peer sends a malformed message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn received(bytes: &[u8]) -> Result<ReplicationMessage, String> {
        receive(&mut &bytes[..]).await.map_err(|error| error.to_string())
    }

    fn framed(text: &str) -> Vec<u8> {
        let length = text.len() as u32;
        [&length.to_be_bytes()[..], text.as_bytes()].concat()
    }

    #[tokio::test]
    async fn messages_arrive_as_they_were_sent() {
        let mut bytes = Vec::new();
        let since = Some(ReplicaPosition { stream: u64::MAX, number: 5 });
        send(&mut bytes, &ReplicationMessage::Follow { since }).await.expect("it fits");
        let Ok(ReplicationMessage::Follow { since: arrived }) = received(&bytes).await else {
            panic!("another message")
        };
        assert_eq!(arrived, since);
        let cut = received(&bytes[..bytes.len() - 1]).await;
        assert!(cut.is_err_and(|text| text.contains("end of file")));
    }

    #[tokio::test]
    async fn messages_of_later_versions_are_ignored_and_malformed_ones_are_errors() {
        let later = received(&framed(r#"{"message": "later", "x": {"y": [1]}}"#)).await;
        assert!(matches!(later, Ok(ReplicationMessage::Unknown)));
        let field = received(&framed(r#"{"message": "follow", "since": null, "x": 1}"#)).await;
        assert!(matches!(field, Ok(ReplicationMessage::Follow { since: None })));
        for text in ["", "{}", "[1", r#"{"message": "hello"}"#, "\u{0}"] {
            assert!(received(&framed(text)).await.is_err(), "{text}");
        }
        let long = received(&u32::MAX.to_be_bytes()).await;
        assert!(long.is_err_and(|text| text.contains("bytes")));
    }
}
