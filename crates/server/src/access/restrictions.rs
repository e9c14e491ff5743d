//! Where a user may log in from: the `authenticationRestrictions` of a user or role, in MongoDB's shape.
//!
//! A list of restrictions is met by meeting one of them; a restriction by an address of the client among `clientSource` and an
//! address of the server among `serverAddress`, where each is given. A user with roles that have lists meets all the lists.
//! They are held at a login, and again whenever the user is read because users or roles have changed.

use std::fmt;
use std::net::IpAddr;

use quarry_bson::{Document, RawArray, RawDocument, Value};

use crate::dispatch::error::{CommandError, Result};

/// Restrictions of one user or role, and ranges of one restriction.
const ENTRIES_MAX: usize = 1_000;

/// The two ends of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The client's address; none of one that came by a socket of the file system, which meets no restriction.
    pub client: Option<IpAddr>,
    /// The address that it has connected to, where that is known.
    pub server: Option<IpAddr>,
}

/// The restrictions of one user or role. An empty list restricts nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restrictions(Vec<Restriction>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Restriction {
    client_source: Option<Vec<Range>>,
    server_address: Option<Vec<Range>>,
}

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    address: IpAddr,
    bits: u8,
}

impl Restrictions {
    /// Reads a list of restrictions, as a command or a document has it.
    pub fn parse(array: Option<RawArray<'_>>) -> Result<Restrictions> {
        let mut restrictions = Vec::new();
        for value in array.into_iter().flatten() {
            let document = value.as_document().ok_or_else(|| {
                CommandError::bad_value("'authenticationRestrictions' holds documents")
            })?;
            restrictions.push(Restriction::parse(document)?);
            check_count(restrictions.len())?;
        }
        Ok(Restrictions(restrictions))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a connection with these ends may be used.
    pub fn are_met(&self, ends: Ends) -> bool {
        self.0.is_empty() || self.0.iter().any(|restriction| restriction.is_met(ends))
    }

    /// The list as documents hold it.
    pub fn array(&self) -> Value {
        let documents: Vec<Document> = self.0.iter().map(Restriction::document).collect();
        Value::from(documents)
    }
}

impl Restriction {
    fn parse(document: RawDocument<'_>) -> Result<Restriction> {
        let mut restriction = Restriction {
            client_source: None,
            server_address: None,
        };
        for field in document {
            let name = field.name().to_string_lossy();
            let place = match &*name {
                "clientSource" => &mut restriction.client_source,
                "serverAddress" => &mut restriction.server_address,
                _ => {
                    let message = format!("Unknown restriction type '{name}'");
                    return Err(CommandError::bad_value(message));
                }
            };
            if place.is_some() {
                let message = format!("the restriction '{name}' is given twice");
                return Err(CommandError::bad_value(message));
            }
            let list = field.value().as_array().ok_or_else(|| {
                CommandError::bad_value(format!(
                    "the restriction '{name}' is an array of addresses"
                ))
            })?;
            let mut ranges = Vec::new();
            for value in list {
                let text = value.as_str().unwrap_or_default();
                ranges.push(Range::parse(text).ok_or_else(|| {
                    CommandError::bad_value(format!("'{text}' is no address and no range of them"))
                })?);
                check_count(ranges.len())?;
            }
            *place = Some(ranges);
        }
        if restriction.client_source.is_none() && restriction.server_address.is_none() {
            return Err(CommandError::bad_value(
                "a restriction has a 'clientSource' or a 'serverAddress'",
            ));
        }
        Ok(restriction)
    }

    fn is_met(&self, ends: Ends) -> bool {
        let is_met = |ranges: &Option<Vec<Range>>, address: Option<IpAddr>| {
            ranges.as_ref().is_none_or(|ranges| {
                address.is_some_and(|address| ranges.iter().any(|range| range.holds(address)))
            })
        };
        is_met(&self.client_source, ends.client) && is_met(&self.server_address, ends.server)
    }

    fn document(&self) -> Document {
        let mut document = Document::new();
        for (name, ranges) in [
            ("clientSource", &self.client_source),
            ("serverAddress", &self.server_address),
        ] {
            if let Some(ranges) = ranges {
                let texts: Vec<String> = ranges.iter().map(ToString::to_string).collect();
                document.append(name, Value::from(texts));
            }
        }
        document
    }
}

impl Range {
    /// Reads `ADDRESS` or `ADDRESS/BITS`.
    fn parse(text: &str) -> Option<Range> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => bits_max,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= bits_max)?,
        };
        Some(Range { address, bits })
    }

    fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = own.to_bits() ^ other.to_bits();
                differ.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(own), other) => {
                // One that IPv6 writes for IPv4 is held as both.
                let other = match (other, address) {
                    (IpAddr::V6(other), _) | (_, IpAddr::V6(other)) => other,
                    (IpAddr::V4(_), IpAddr::V4(_)) => return false,
                };
                let differ = own.to_bits() ^ other.to_bits();
                differ.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_one = self.bits == if self.address.is_ipv4() { 32 } else { 128 };
        match is_one {
            true => write!(f, "{}", self.address),
            false => write!(f, "{}/{}", self.address, self.bits),
        }
    }
}

fn check_count(count: usize) -> Result<()> {
    if count <= ENTRIES_MAX {
        return Ok(());
    }
    let message = format!("at most {ENTRIES_MAX} restrictions or addresses stand in one list");
    Err(CommandError::bad_value(message))
}

#[cfg(test)]
mod tests {
    use quarry_bson::doc;

    use super::*;

    fn parse(list: Vec<Document>) -> Result<Restrictions> {
        let document = doc! { "list": (Value::from(list)) };
        Restrictions::parse(document.get_array("list"))
    }

    fn ends(client: &str, server: &str) -> Ends {
        Ends {
            client: client.parse().ok(),
            server: server.parse().ok(),
        }
    }

    #[test]
    fn one_restriction_is_met_in_all_its_parts() {
        let restrictions = parse(vec![
            doc! { "clientSource": ["10.0.0.0/8", "::1"], "serverAddress": ["192.168.1.1"] },
            doc! { "clientSource": ["127.0.0.1"] },
        ])
        .unwrap();
        for (client, server, is_met) in [
            ("10.255.0.1", "192.168.1.1", true),
            ("::ffff:10.1.2.3", "::ffff:192.168.1.1", true),
            ("10.255.0.1", "192.168.1.2", false),
            ("10.255.0.1", "unknown", false),
            ("11.0.0.1", "192.168.1.1", false),
            ("::1", "192.168.1.1", true),
            ("::2", "192.168.1.1", false),
            ("127.0.0.1", "unknown", true),
            ("a socket of the file system", "none", false),
        ] {
            assert_eq!(
                restrictions.are_met(ends(client, server)),
                is_met,
                "{client}"
            );
        }
        let all = parse(vec![doc! { "clientSource": ["0.0.0.0/0"] }]).unwrap();
        assert!(all.are_met(ends("8.8.8.8", "")) && !all.are_met(ends("::1", "")));
        assert!(parse(vec![]).unwrap().are_met(ends("8.8.8.8", "")));
        let none = parse(vec![doc! { "clientSource": (Value::array()) }]).unwrap();
        assert!(!none.are_met(ends("8.8.8.8", "")));
    }

    #[test]
    fn restrictions_are_written_as_they_are_read_and_nonsense_is_refused() {
        let list = vec![doc! { "clientSource": ["10.0.0.0/8", "fe80::/10", "::1"] }];
        let restrictions = parse(list.clone()).unwrap();
        assert_eq!(restrictions.array(), Value::from(list));
        for bad in [
            doc! {},
            doc! { "clientSource": "10.0.0.1" },
            doc! { "clientSource": ["10.0.0.1/33"] },
            doc! { "clientSource": ["example.org"] },
            doc! { "clientSource": [1] },
            doc! { "source": ["10.0.0.1"] },
        ] {
            assert!(parse(vec![bad.clone()]).is_err(), "{bad}");
        }
    }
}
