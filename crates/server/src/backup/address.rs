//! The address of a repository: the path of a directory, or the bucket of an object store and a prefix in it.
//!
//! Keeps true: an address has no credentials in it, so that logs and lists of processes may show it; one that looks as if it had is
//! refused, and not repeated.

use std::fmt;
use std::path::PathBuf;

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Directory(PathBuf),
    /// A URL, which is looked at when it is used.
    Store(String),
}

/// The protocol that a store speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Amazon's, and of many others.
    S3,
    /// Google's Cloud Storage.
    Google,
    /// Microsoft's Azure Blob Storage.
    Azure,
}

/// The schemes of the stores, with what of the environment they need.
const SCHEMES: [(&str, StoreKind, &str); 3] = [
    (
        "s3",
        StoreKind::S3,
        "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL",
    ),
    ("gs", StoreKind::Google, "GOOGLE_SERVICE_ACCOUNT"),
    (
        "az",
        StoreKind::Azure,
        "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    ),
];

impl StoreKind {
    fn scheme(self) -> &'static str {
        let found = SCHEMES.iter().find(|(_, kind, _)| *kind == self);
        found.map_or("", |(scheme, _, _)| scheme)
    }
}

/// A bucket, which Azure calls a container, and what the names of a repository's objects in it begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAddress {
    pub kind: StoreKind,
    pub bucket: String,
    /// Without a slash at its ends; empty for all of the bucket.
    pub prefix: String,
}

/// The longest name of an object that all of them take, less what a repository puts behind the prefix.
const PREFIX_BYTES_MAX: usize = 1024 - 128;

impl Address {
    /// Tells URLs from paths: what begins with letters and `://` is one.
    pub fn of(path: PathBuf) -> Address {
        let scheme = path.to_str().and_then(|text| text.split_once("://"));
        let is_url = scheme.is_some_and(|(scheme, _)| {
            !scheme.is_empty() && scheme.bytes().all(|each| each.is_ascii_alphanumeric())
        });
        match path.to_str() {
            Some(text) if is_url => Address::Store(text.to_owned()),
            _ => Address::Directory(path),
        }
    }
}

impl StoreAddress {
    /// Reads `s3://BUCKET/PREFIX`, or one of the other schemes. The error is one line, without what may be a secret.
    pub fn parse(url: &str) -> Result<StoreAddress, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let known = SCHEMES.iter().find(|(known, _, _)| *known == scheme);
        let &(_, kind, environment) = known.ok_or_else(|| {
            format!(
                "`{scheme}://`: the stores that are known have addresses like s3://BUCKET/PREFIX, gs://BUCKET/PREFIX and az://CONTAINER/PREFIX"
            )
        })?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_of_bucket = |each: u8| each.is_ascii_alphanumeric() || b"-._".contains(&each);
        if bucket.is_empty() || !bucket.bytes().all(is_of_bucket) {
            return Err(format!(
                "the address of the store does not begin with {scheme}://BUCKET/; credentials and the endpoint come from the environment, as {environment}"
            ));
        }
        let prefix = prefix.trim_end_matches('/');
        let is_part = |part: &str| {
            !matches!(part, "" | "." | "..")
                && (part.bytes()).all(|each| is_of_bucket(each) || b"=+,!'()".contains(&each))
        };
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return Err(format!(
                "{scheme}://{bucket}/...: the prefix may have letters, digits and -._=+,!'() between single slashes"
            ));
        }
        if prefix.len() > PREFIX_BYTES_MAX {
            return Err(format!(
                "{scheme}://{bucket}/...: the prefix is longer than {PREFIX_BYTES_MAX} bytes"
            ));
        }
        Ok(StoreAddress {
            kind,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        })
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        let scheme = self.kind.scheme();
        write!(out, "{scheme}://{}{slash}{}", self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        for url in ["s3://bucket/prefix", "s3://", "gs://bucket"] {
            assert_eq!(Address::of(url.into()), Address::Store(url.into()));
        }
        for path in [
            "/backups",
            "backups",
            "s3:/bucket",
            "./s3://bucket",
            "://",
            "a b://c",
            "",
        ] {
            assert_eq!(Address::of(path.into()), Address::Directory(path.into()));
        }
    }

    #[test]
    fn a_bucket_and_a_prefix_are_read_and_written_alike() {
        for (url, bucket, prefix, written) in [
            ("s3://b", "b", "", "s3://b"),
            ("s3://b/", "b", "", "s3://b"),
            ("gs://b/c", "b", "c", "gs://b/c"),
            ("az://b/c", "b", "c", "az://b/c"),
            (
                "s3://my-bucket.x/a/b=c/",
                "my-bucket.x",
                "a/b=c",
                "s3://my-bucket.x/a/b=c",
            ),
        ] {
            let address = StoreAddress::parse(url).unwrap();
            assert_eq!((&*address.bucket, &*address.prefix), (bucket, prefix));
            assert_eq!(address.to_string(), written);
        }
    }

    #[test]
    fn what_may_be_a_secret_is_refused_and_not_repeated() {
        for url in [
            "s3://KEY:hidden@bucket/prefix",
            "s3://bucket?secret=hidden",
            "s3://bucket/prefix?key=hidden",
            "s3://bucket/prefix#hidden",
            "s3://bucket/KEY:hidden@prefix",
            "az://account:hidden@container",
            "gs://bucket?token=hidden",
        ] {
            let error = StoreAddress::parse(url).unwrap_err();
            assert!(!error.contains("hidden"), "{error}");
        }
        for url in [
            "s3://",
            "s3:///prefix",
            "http://bucket",
            "S3://bucket",
            "gs://",
            "s3://bucket//prefix",
            "s3://bucket/../prefix",
            "s3://bucket/a b",
            "s3://bücket",
        ] {
            assert!(StoreAddress::parse(url).is_err(), "{url}");
        }
        let long = format!("s3://bucket/{}", "x".repeat(PREFIX_BYTES_MAX + 1));
        assert!(StoreAddress::parse(&long).is_err());
    }
}
