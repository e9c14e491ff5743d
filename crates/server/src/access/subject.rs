//! The part of a certificate that says whom it was made for: the name of its subject as MongoDB writes it, and when it expires.
//!
//! The name is that of RFC 2253: the most particular part first, `CN=app,OU=Services,O=Example`. It is the name of the user
//! in `$external` who logs in with the certificate, so that it has to be the same text, letter by letter, wherever it is made.

use std::fmt::Write;
use std::time::Duration;

use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{
    BmpString, Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef,
};
use x509_cert::der::{Decode, Encode};

/// The short names of attributes; another is written as its number.
const SHORT_NAMES: [(&str, &str); 20] = [
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.46", "dnQualifier"),
];

/// The parts of a certificate that are shown and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The subject's distinguished name; empty where it has none.
    pub name: String,
    /// When the certificate expires, since 1970.
    pub expires: Duration,
}

impl Subject {
    /// Reads a certificate; none where it is not one.
    pub fn of(certificate: &[u8]) -> Option<Subject> {
        let certificate = Certificate::from_der(certificate).ok()?;
        let certificate = certificate.tbs_certificate;
        let mut name = String::new();
        for relative in certificate.subject.0.iter().rev() {
            for (at, part) in relative.0.iter().enumerate() {
                match (at, name.is_empty()) {
                    (0, true) => {}
                    (0, false) => name.push(','),
                    _ => name.push('+'),
                }
                push_part(&mut name, part)?;
            }
        }
        Some(Subject {
            name,
            expires: certificate.validity.not_after.to_unix_duration(),
        })
    }
}

/// Writes `TYPE=value`; none where the value cannot be written.
fn push_part(out: &mut String, part: &AttributeTypeAndValue) -> Option<()> {
    let number = part.oid.to_string();
    let short = SHORT_NAMES.iter().find(|(oid, _)| *oid == number);
    out.push_str(short.map_or(number.as_str(), |(_, name)| name));
    out.push('=');
    let value = &part.value;
    if let Ok(text) = value.decode_as::<Utf8StringRef<'_>>() {
        push_escaped(out, text.as_str());
    } else if let Ok(text) = value.decode_as::<PrintableStringRef<'_>>() {
        push_escaped(out, text.as_str());
    } else if let Ok(text) = value.decode_as::<Ia5StringRef<'_>>() {
        push_escaped(out, text.as_str());
    } else if let Ok(text) = value.decode_as::<TeletexStringRef<'_>>() {
        push_escaped(out, text.as_str());
    } else if let Ok(text) = value.decode_as::<BmpString>() {
        push_escaped(out, &text.to_string());
    } else {
        out.push('#');
        for byte in value.to_der().ok()? {
            let _ = write!(out, "{byte:02X}");
        }
    }
    Some(())
}

/// Writes the text with a backslash before what would mean something else in a name.
fn push_escaped(out: &mut String, text: &str) {
    let last = text.chars().count().saturating_sub(1);
    for (at, c) in text.chars().enumerate() {
        let is_escaped = match c {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            '#' => at == 0,
            ' ' => at == 0 || at == last,
            _ => false,
        };
        if is_escaped {
            out.push('\\');
        }
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn subject_of(parts: &[(DnType, &str)]) -> Subject {
        let mut params = CertificateParams::default();
        let mut name = DistinguishedName::new();
        for (kind, value) in parts {
            name.push(kind.clone(), *value);
        }
        params.distinguished_name = name;
        let key = KeyPair::generate().unwrap();
        Subject::of(params.self_signed(&key).unwrap().der()).unwrap()
    }

    #[test]
    fn names_are_written_the_particular_first_and_escaped() {
        let email = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
        let unknown = DnType::CustomDnType(vec![1, 2, 3, 4]);
        for (parts, name) in [
            (
                vec![
                    (DnType::CountryName, "US"),
                    (DnType::StateOrProvinceName, "New York"),
                    (DnType::OrganizationName, "Example, Inc."),
                    (DnType::CommonName, "app"),
                ],
                "CN=app,O=Example\\, Inc.,ST=New York,C=US",
            ),
            (
                vec![(DnType::CommonName, " #a+\"b\";<c>\\ ")],
                "CN=\\ #a\\+\\\"b\\\"\\;\\<c\\>\\\\\\ ",
            ),
            (vec![(DnType::CommonName, "#1")], "CN=\\#1"),
            (vec![(DnType::CommonName, "J\u{f6}rg")], "CN=J\u{f6}rg"),
            (
                vec![(email, "a@b.example"), (unknown, "x")],
                "1.2.3.4=x,emailAddress=a@b.example",
            ),
            (vec![], ""),
        ] {
            assert_eq!(subject_of(&parts).name, name);
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_subject() {
        assert_eq!(Subject::of(b""), None);
        assert_eq!(Subject::of(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
