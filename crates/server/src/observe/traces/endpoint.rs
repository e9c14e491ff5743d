//! Where traces are sent: the URL of a collector's OTLP over HTTP, checked before the server starts.

use std::fmt;

use ureq::http::Uri;

/// Where a collector takes traces when the URL names no path.
const PATH_DEFAULT: &str = "/v1/traces";

/// `http://host:port/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(String);

impl Endpoint {
    /// # Errors
    /// Says what is wrong with the URL.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("`{text}` is not a URL: {error}"))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http"), Some(_)) => {}
            (Some("https"), _) => {
                return Err(format!(
                    "`{text}`: TLS is not supported yet; send to a collector nearby over http"
                ));
            }
            _ => return Err(format!("`{text}` is not of the form http://host:port/path")),
        }
        if uri.path() == "/" && uri.query().is_none() {
            return Ok(Endpoint(format!(
                "{}{PATH_DEFAULT}",
                text.trim_end_matches('/')
            )));
        }
        Ok(Endpoint(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_gets_the_usual_one() {
        let parsed = |text| Endpoint::parse(text).map(|endpoint| endpoint.0);
        let usual = "http://127.0.0.1:4318/v1/traces";
        assert_eq!(parsed("http://127.0.0.1:4318").unwrap(), usual);
        assert_eq!(parsed("http://127.0.0.1:4318/").unwrap(), usual);
        assert_eq!(parsed(usual).unwrap(), usual);
        assert_eq!(parsed("http://otel/x").unwrap(), "http://otel/x");
    }

    #[test]
    fn what_cannot_be_sent_to_is_refused() {
        for text in ["", "4318", "127.0.0.1:4318", "grpc://otel:4317", "http://"] {
            assert!(Endpoint::parse(text).is_err(), "{text}");
        }
        assert!(Endpoint::parse("https://otel").unwrap_err().contains("TLS"));
    }
}
