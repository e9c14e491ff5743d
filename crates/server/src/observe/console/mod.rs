//! The console: pages on the admin port that show, live, what the server does, and what it did within the last day. Its files are
//! embedded; they load nothing from elsewhere, so that it works offline.
//!
//! The page gets what it shows in five ways: `/timing.json` and `/history.json` give figures, and `POST /command` runs a command
//! of the server for it (`commands`), as the user who has logged in and with the privileges of that user. `POST /advice` tries indexes for a
//! query (`advice`), and `/language.json` names the operators that somebody who types one is offered (`language`). A page of a
//! foreign site that is open in the same browser gets nothing of this and can end nothing (`site`).
//!
//! Names, documents and queries are anybody's: the page shows them as text, and its policy lets it run no script but the files below.

mod advice;
mod commands;
mod figures;
mod language;
mod site;

pub use advice::advise;
pub use commands::{
    BODY_BYTES_MAX, Lane, Refusal, Runner, is_open, parse as parse_command, parse_question, run,
};
pub use figures::json;
pub use language::json as language;
pub use site::{is_from_page, is_own_host, refuse_foreign};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The policy of everything that the admin port serves: files of its own, no script or style within a page, no frame around it, and no
/// form that leads anywhere.
pub const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// One file of the page.
pub struct PageFile {
    path: &'static str,
    /// The `Content-Type`.
    pub content_type: &'static str,
    /// The bytes as they are served.
    pub text: &'static str,
}

/// `file("/name", TYPE, "name in page/")`.
macro_rules! file {
    ($path:literal, $content_type:expr, $name:literal) => {
        PageFile {
            path: $path,
            content_type: $content_type,
            text: include_str!(concat!("page/", $name)),
        }
    };
}

/// The files of the page. uPlot is a library of others, under the MIT licence that stands beside it.
static FILES: [PageFile; 19] = [
    file!("/", HTML, "index.html"),
    file!("/icon.svg", "image/svg+xml", "icon.svg"),
    file!("/console.css", STYLE, "console.css"),
    file!("/console.js", SCRIPT, "console.js"),
    file!("/server.js", SCRIPT, "server.js"),
    file!("/show.js", SCRIPT, "show.js"),
    file!("/phases.js", SCRIPT, "phases.js"),
    file!("/overview.js", SCRIPT, "overview.js"),
    file!("/history.js", SCRIPT, "history.js"),
    file!("/operations.js", SCRIPT, "operations.js"),
    file!("/collections.js", SCRIPT, "collections.js"),
    file!("/data.js", SCRIPT, "data.js"),
    file!("/completion.js", SCRIPT, "completion.js"),
    file!("/suggestions.js", SCRIPT, "suggestions.js"),
    file!("/plan.js", SCRIPT, "plan.js"),
    file!("/adviser.js", SCRIPT, "adviser.js"),
    file!("/uPlot.iife.min.js", SCRIPT, "uPlot.iife.min.js"),
    file!("/uPlot.min.css", STYLE, "uPlot.min.css"),
    file!(
        "/uPlot.LICENSE",
        "text/plain; charset=utf-8",
        "uPlot.LICENSE"
    ),
];

/// The file of the page that is served under this path.
pub fn file(path: &str) -> Option<&'static PageFile> {
    FILES.iter().find(|file| file.path == path)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// The files of uPlot 1.6.32 as its package `uplot` has them in `dist`.
    const PINNED: [(&str, &str); 2] = [
        (
            "/uPlot.iife.min.js",
            "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        ),
        (
            "/uPlot.min.css",
            "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        ),
    ];

    #[test]
    fn the_library_of_others_is_the_one_that_was_looked_at() {
        for (path, pinned) in PINNED {
            let sum = Sha256::digest(file(path).unwrap().text);
            let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(sum, pinned, "{path}");
        }
        assert!(file("/uPlot.LICENSE").unwrap().text.contains("MIT License"));
    }

    #[test]
    fn the_pages_load_their_own_files_alone_and_make_no_markup_of_text() {
        for file in FILES.iter().filter(|file| !file.path.starts_with("/uPlot")) {
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for foreign in ["http://", "https://", "url("] {
                assert!(!text.contains(foreign), "{}: {foreign}", file.path);
            }
            // Text of others must never become markup or script.
            for unsafe_call in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "setAttribute(\"on",
                "srcdoc",
            ] {
                assert!(
                    !file.text.contains(unsafe_call),
                    "{}: {unsafe_call}",
                    file.path
                );
            }
        }
        let page = file("/").unwrap().text;
        for part in page
            .split("src=\"")
            .skip(1)
            .chain(page.split("href=\"").skip(1))
        {
            let name = part.split('"').next().unwrap();
            if name.starts_with('#') {
                continue;
            }
            assert!(file(&format!("/{name}")).is_some(), "{name}");
        }
        // The policy would keep these from running.
        assert!(!page.contains("<style") && !page.contains("style=") && !page.contains("onclick="));
    }
}
