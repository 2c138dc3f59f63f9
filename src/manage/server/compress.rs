//! Compression of replies for clients that accept it (RFC 9110, 12.5.3).

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

/// Replies from this length on are compressed, in bytes: shorter ones fit into a few packets.
const MIN_LENGTH: usize = 8 << 10;

/// True if a header Accept-Encoding allows gzip. Without a weight for it, that of `*` counts.
pub(super) fn accepts_gzip(header: &str) -> bool {
    weight(header, "gzip").or_else(|| weight(header, "*")).is_some_and(|weight| weight > 0.0)
}

/// The weight of a coding in an Accept-Encoding header.
fn weight(header: &str, coding: &str) -> Option<f32> {
    header.split(',').find_map(|item| {
        let (name, weight) = item.split_once(';').unwrap_or((item, "q=1"));
        let is_coding = name.trim().eq_ignore_ascii_case(coding);
        is_coding.then(|| weight.trim().trim_start_matches("q=").parse::<f32>().unwrap_or(0.0))
    })
}

/// The compressed body; `None` if it is short, or does not become shorter.
pub(super) fn gzip(body: &[u8]) -> Option<Vec<u8>> {
    if body.len() < MIN_LENGTH {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok().filter(|compressed| compressed.len() < body.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read as _;

    #[test]
    fn headers_allow_gzip_or_not() {
        for header in ["gzip", "br, gzip", "gzip;q=0.5", "*", "GZIP , br", "br;q=1, *;q=0.1"] {
            assert!(accepts_gzip(header), "{header}");
        }
        for header in
            ["", "br", "gzip;q=0", "identity", "*;q=0", "gzip;q=0, *", "gzip;q=x", "xgzip"]
        {
            assert!(!accepts_gzip(header), "{header}");
        }
    }

    #[test]
    fn long_bodies_are_compressed_if_they_become_shorter() {
        let body = "torus_sm_port_errors_total 0\n".repeat(1000).into_bytes();
        let compressed = gzip(&body).expect("it is long");
        assert!(compressed.len() * 10 < body.len(), "{} bytes", compressed.len());
        let mut restored = Vec::new();
        GzDecoder::new(&compressed[..]).read_to_end(&mut restored).expect("gzip");
        assert!(restored == body);
        assert_eq!(gzip(&body[..100]), None);
    }
}
