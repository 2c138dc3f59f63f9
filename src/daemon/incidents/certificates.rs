//! Certificates that end soon: clients and other instances refuse them afterwards.

use super::source::{FactSource, FactView};
use super::watched_file::WatchedFile;
use crate::config::options::Options;
use crate::incidents::fact::{Facts, OwnFault};
use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::collections::BTreeMap;
use std::path::Path;

/// Time before the end of a certificate from which on it is an incident.
const MIN_LEFT: TimeDelta = TimeDelta::days(30);

// Tags of DER (X.690, 8).
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xA0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The end of the first certificate of a file, or why it is not known.
type End = Result<DateTime<Utc>, String>;

/// The files of certificates, by the option that names them.
#[derive(Default)]
pub struct Certificates(BTreeMap<&'static str, WatchedFile<End>>);

impl FactSource for Certificates {
    fn add_facts(&mut self, view: &FactView<'_>, facts: &mut Facts) {
        facts.own.extend(self.ending(&view.status.options, view.time));
    }
}

impl Certificates {
    /// The certificates that end within 30 days, or have ended.
    fn ending(&mut self, options: &Options, now: DateTime<Utc>) -> Vec<OwnFault> {
        let files = [
            ("management_tls_certificate", &options.management_tls_certificate),
            ("management_tls_client_ca", &options.management_tls_client_ca),
            ("replication_cert", &options.replication_cert),
            ("replication_ca", &options.replication_ca),
        ];
        let mut faults = Vec::new();
        for (option, path) in files {
            let Some(path) = path.as_deref().map(Path::new) else { continue };
            let known = self.0.remove(option).filter(|file| file.is_current(path));
            let file = known.unwrap_or_else(|| WatchedFile::read(path, end_of_file));
            faults.extend(fault(option, path, file.contents(), now));
            self.0.insert(option, file);
        }
        faults
    }
}

fn fault(option: &'static str, path: &Path, end: &End, now: DateTime<Utc>) -> Option<OwnFault> {
    let path = path.display();
    let text = match end {
        Err(problem) => format!("the certificate of {option} cannot be read: {problem}"),
        Ok(end) if *end <= now => {
            format!(
                "the certificate {path} of {option} ended at {}",
                end.format("%Y-%m-%d %H:%M UTC")
            )
        }
        Ok(end) if *end - now < MIN_LEFT => {
            format!("the certificate {path} of {option} ends on {}", end.format("%Y-%m-%d"))
        }
        Ok(_) => return None,
    };
    Some(OwnFault { resource: option, text, repair: format!("renew the certificate {path}") })
}

fn end_of_file(path: &Path, bytes: Result<Vec<u8>, String>) -> End {
    let certificate = CertificateDer::from_pem_slice(&bytes?)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let end = not_after(&certificate);
    end.ok_or_else(|| format!("{}: the certificate is malformed", path.display()))
}

/// The end of the validity of a certificate (RFC 5280, 4.1.2.5); `None` if it is malformed.
fn not_after(certificate: &[u8]) -> Option<DateTime<Utc>> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut fields, _) = element(certificate)?;
    if fields.first() == Some(&VERSION) {
        fields = element(fields)?.2;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        fields = element(fields)?.2;
    }
    let (tag, validity, _) = element(fields)?;
    let (_, _, rest) = element(validity)?;
    let (time_tag, text, _) = element(rest)?;
    let text = std::str::from_utf8(text).ok().filter(|_| tag == SEQUENCE)?;
    let full = match time_tag {
        // Years from 50 on are of the last century (RFC 5280, 4.1.2.5.1).
        UTC_TIME => {
            let century = if text.get(..2)?.parse::<u8>().ok()? < 50 { "20" } else { "19" };
            format!("{century}{text}")
        }
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = NaiveDateTime::parse_from_str(&full, "%Y%m%d%H%M%SZ").ok()?;
    Some(time.and_utc())
}

/// The first element of a DER text: its tag, its contents, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let long = usize::from(first & 0x7F);
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else if (1..=4).contains(&long) && rest.len() >= long {
        let (digits, rest) = rest.split_at(long);
        (digits.iter().fold(0, |length, &digit| (length << 8) | usize::from(digit)), rest)
    } else {
        return None;
    };
    let contents = rest.get(..length)?;
    Some((tag, contents, &rest[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn the_end_of_certificates_is_read_and_malformed_ones_are_none() {
        let key = KeyPair::generate().expect("a key");
        for (year, text) in [(2031, "2031-05-04 00:00:00 UTC"), (2077, "2077-05-04 00:00:00 UTC")] {
            let mut params = CertificateParams::new(vec!["a".to_owned()]).expect("a name");
            params.not_after = date_time_ymd(year, 5, 4);
            let certificate = params.self_signed(&key).expect("a certificate");
            let der = certificate.der();
            assert_eq!(not_after(der).map(|end| end.to_string()).as_deref(), Some(text));
            for length in 0..der.len() {
                assert_eq!(not_after(&der[..length]), None, "{length} octets");
            }
        }
    }
}
