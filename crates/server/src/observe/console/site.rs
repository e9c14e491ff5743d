//! Which site a request comes from: a browser asks the admin port on behalf of whatever page is open in it.
//!
//! Keeps true: a page of a foreign site can neither read an answer nor have anything done. A browser tells where a request comes
//! from (`Sec-Fetch-Site`, `Origin`), and asks first before it sends JSON or a header of the page's own to a foreign server,
//! which the admin port never allows. That leaves a site whose name leads to this server's address for a moment: where there is no
//! access control, which would ask such a page for a password, a request has to name the server by an address or by a name that the server
//! knows as its own.
//!
//! Clients that are no browsers send nothing of this but `Host`, and are served.

use std::net::IpAddr;

use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};

use crate::server::Server;

/// Sent by the page with everything that it asks: a foreign page cannot send it unasked.
const OWN_HEADER: HeaderName = HeaderName::from_static("x-quarry-console");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request for figures or a command is not answered; none where it comes from the server's own page or no browser.
pub fn refuse_foreign(headers: &HeaderMap, is_encrypted: bool) -> Option<&'static str> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text(&FETCH_SITE)
        && !matches!(site, "same-origin" | "none")
    {
        return Some("the request comes from a page of another site\n");
    }
    let host = text(&HOST).unwrap_or_default();
    let scheme = if is_encrypted { "https" } else { "http" };
    match text(&ORIGIN) {
        Some(origin) if !origin.eq_ignore_ascii_case(&format!("{scheme}://{host}")) => {
            Some("the request comes from a page of another site\n")
        }
        _ => None,
    }
}

/// Whether a request to run something is what no foreign page can send without being allowed to: JSON, with the page's own header.
pub fn is_from_page(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let media_type = content_type.map(|value| value.split(';').next().unwrap_or(value).trim());
    headers.contains_key(OWN_HEADER)
        && media_type.is_some_and(|found| found.eq_ignore_ascii_case("application/json"))
}

/// Whether `Host` names the server by an address, as `localhost`, or by a name of its own.
pub fn is_own_host(server: &Server, headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let Some(host) = host.map(without_port) else {
        // HTTP/1.0 has none, and no browser speaks it.
        return true;
    };
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    let short = machine.split('.').next().unwrap_or_default();
    let set = server.config.replica_set.as_ref();
    let advertised = set.and_then(|set| set.advertised.as_ref());
    let advertised = advertised.map(ToString::to_string).unwrap_or_default();
    let known = [&*machine, short, without_port(&advertised), "localhost"];
    let bound = server.config.addresses.iter().map(String::as_str);
    host.parse::<IpAddr>().is_ok()
        || known
            .into_iter()
            .chain(bound)
            .any(|name| !name.is_empty() && name.eq_ignore_ascii_case(host))
}

/// The name or address before the port, without the brackets of IPv6.
fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    host.split(':').next().unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn pages_of_other_sites_are_told_by_what_their_browser_says() {
        let refused = |list: &[_]| refuse_foreign(&headers(list), false).is_some();
        let host = ("host", "127.0.0.1:28017");
        assert!(!refused(&[host]));
        assert!(!refused(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(!refused(&[host, ("sec-fetch-site", "none")]));
        assert!(!refused(&[host, ("origin", "http://127.0.0.1:28017")]));
        for foreign in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "http://evil.example"),
            ("origin", "http://127.0.0.1:28018"),
            ("origin", "https://127.0.0.1:28017"),
            ("origin", "null"),
        ] {
            assert!(refused(&[host, foreign]), "{foreign:?}");
        }
    }

    #[test]
    fn a_command_has_what_a_form_of_a_foreign_page_cannot_send() {
        let is_ok = |list: &[_]| is_from_page(&headers(list));
        let own = ("x-quarry-console", "1");
        assert!(is_ok(&[
            own,
            ("content-type", "application/json; charset=utf-8")
        ]));
        assert!(!is_ok(&[("content-type", "application/json")]));
        for other in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
        ] {
            assert!(!is_ok(&[own, ("content-type", other)]), "{other}");
        }
        assert!(!is_ok(&[own]));
    }

    #[test]
    fn a_name_that_somebody_made_lead_here_is_not_the_servers() {
        let server = Server::in_memory_with(&["--bind_ip", "127.0.0.1,db.example"]);
        let is_own = |host| is_own_host(&server, &headers(&[("host", host)]));
        for own in [
            "127.0.0.1:28017",
            "[::1]:28017",
            "localhost:1",
            "LOCALHOST",
            "db.example:28017",
            "10.1.2.3",
        ] {
            assert!(is_own(own), "{own}");
        }
        for foreign in [
            "evil.example:28017",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
        ] {
            assert!(!is_own(foreign), "{foreign}");
        }
        assert!(is_own_host(&server, &headers(&[])));
    }
}
