//! Text inside BSON bytes, handed out as bytes.
//!
//! A document may have been validated with any text in it, as MongoDB stores it, so the type does not promise UTF-8:
//! `as_str` looks (a SIMD pass), while comparing, copying and hashing work on the bytes and cost nothing extra.

use std::{borrow::Cow, fmt};

use crate::{Error, Result};

/// Text borrowed from a document. It may hold NUL where it is a string value, never where it is a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RawStr<'a>(&'a [u8]);

impl<'a> RawStr<'a> {
    /// Text from bytes that a caller knows to be UTF-8, or whose `as_str` it will check.
    #[inline]
    pub const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes, without the NUL behind them.
    #[inline]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The text, looked at again; an error where it is not UTF-8.
    #[inline]
    pub fn as_str(&self) -> Result<&'a str> {
        simdutf8::basic::from_utf8(self.0).map_err(|_| Error::malformed(0, "UTF-8 text"))
    }

    /// The text, with U+FFFD where it is not UTF-8.
    pub fn to_string_lossy(&self) -> Cow<'a, str> {
        match simdutf8::basic::from_utf8(self.0) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(self.0),
        }
    }

    /// The size in bytes, the NUL not counted.
    #[inline]
    pub const fn len_bytes(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no text.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> From<&'a str> for RawStr<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

impl<'a> From<&'a String> for RawStr<'a> {
    fn from(text: &'a String) -> Self {
        Self(text.as_bytes())
    }
}

impl AsRef<[u8]> for RawStr<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl PartialEq<str> for RawStr<'_> {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for RawStr<'_> {
    #[inline]
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<RawStr<'_>> for str {
    fn eq(&self, other: &RawStr<'_>) -> bool {
        self.as_bytes() == other.0
    }
}

impl PartialEq<RawStr<'_>> for &str {
    fn eq(&self, other: &RawStr<'_>) -> bool {
        self.as_bytes() == other.0
    }
}

impl fmt::Display for RawStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_string_lossy())
    }
}

impl fmt::Debug for RawStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string_lossy(), f)
    }
}
