//! The BSON corpus: every case of the specification's test files, both as bytes and as Extended JSON.
//!
//! The files come with pymongo's source package and are not kept here; `QUARRY_BSON_CORPUS` names the directory
//! that holds them. Without it there is nothing to test, and the test says so.

use std::{fs, path::PathBuf};

use quarry_bson::{Document, RawDocument, extjson};
use serde_json::Value as Json;

/// Cases of pymongo 4.17.0: fewer means that the directory is not whole.
const CASES_MIN: usize = 983;

#[test]
fn every_case_of_the_corpus_passes() {
    let Some(directory) = std::env::var_os("QUARRY_BSON_CORPUS") else {
        eprintln!("not run: QUARRY_BSON_CORPUS does not name the directory of the BSON corpus");
        return;
    };
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .expect("QUARRY_BSON_CORPUS names a directory")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    let mut run = Run::default();
    for file in &files {
        let suite: Json = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        run.file = file.file_name().unwrap().to_string_lossy().into_owned();
        run.suite(&suite);
    }
    assert!(
        run.failures.is_empty(),
        "{} of {} cases failed:\n{}",
        run.failures.len(),
        run.cases,
        run.failures.join("\n")
    );
    assert!(
        run.cases >= CASES_MIN,
        "only {} cases found in {}",
        run.cases,
        directory.display()
    );
}

#[derive(Default)]
struct Run {
    file: String,
    cases: usize,
    failures: Vec<String>,
}

impl Run {
    fn suite(&mut self, suite: &Json) {
        for (kind, check) in [
            ("valid", valid as fn(&Json, &Json) -> Result<(), String>),
            ("decodeErrors", decode_error),
            ("parseErrors", parse_error),
        ] {
            for case in suite[kind].as_array().into_iter().flatten() {
                self.cases += 1;
                if let Err(failure) = check(suite, case) {
                    self.failures.push(format!(
                        "{} `{}`: {failure}",
                        self.file, case["description"]
                    ));
                }
            }
        }
    }
}

/// The assertions that the specification lists for a valid case, in its order.
fn valid(_: &Json, case: &Json) -> Result<(), String> {
    let lossy = case["lossy"].as_bool().unwrap_or(false);
    let canonical_bytes = hex(text(case, "canonical_bson"));
    let canonical = RawDocument::validated(&canonical_bytes).map_err(|e| e.to_string())?;
    let canonical_text = text(case, "canonical_extjson");

    same_bytes(
        "bytes walked and built again",
        rebuilt(canonical).as_bytes(),
        &canonical_bytes,
    )?;
    same_json(
        "canonical text",
        &extjson::canonical(canonical),
        canonical_text,
    )?;
    let read = extjson::parse(canonical_text).map_err(|e| e.to_string())?;
    RawDocument::validated(read.as_bytes()).map_err(|e| e.to_string())?;
    same_json(
        "canonical text read and written",
        &extjson::canonical(read.as_raw()),
        canonical_text,
    )?;
    if !lossy {
        same_bytes("canonical text as bytes", read.as_bytes(), &canonical_bytes)?;
    }
    if let Some(relaxed) = case["relaxed_extjson"].as_str() {
        same_json("relaxed text", &extjson::relaxed(canonical), relaxed)?;
        let read = extjson::parse(relaxed).map_err(|e| e.to_string())?;
        same_json(
            "relaxed text read and written",
            &extjson::relaxed(read.as_raw()),
            relaxed,
        )?;
    }
    if let Some(degenerate) = case["degenerate_bson"].as_str() {
        let bytes = hex(degenerate);
        let read = RawDocument::validated(&bytes).map_err(|e| e.to_string())?;
        same_json(
            "degenerate bytes as text",
            &extjson::canonical(read),
            canonical_text,
        )?;
    }
    if let Some(degenerate) = case["degenerate_extjson"].as_str() {
        let read = extjson::parse(degenerate).map_err(|e| e.to_string())?;
        same_json(
            "degenerate text",
            &extjson::canonical(read.as_raw()),
            canonical_text,
        )?;
        if !lossy {
            same_bytes(
                "degenerate text as bytes",
                read.as_bytes(),
                &canonical_bytes,
            )?;
        }
    }
    Ok(())
}

fn decode_error(_: &Json, case: &Json) -> Result<(), String> {
    match RawDocument::validated(&hex(text(case, "bson"))) {
        Ok(document) => Err(format!("accepted as {document}")),
        Err(_) => Ok(()),
    }
}

/// Text that must not parse: a decimal where the suite is about decimals, an object elsewhere.
fn parse_error(suite: &Json, case: &Json) -> Result<(), String> {
    const DECIMAL: &str = "0x13";
    let given = text(case, "string");
    let accepted = if suite["bson_type"] == DECIMAL {
        quarry_bson::Decimal128::parse(given)
            .ok()
            .map(|d| d.to_string())
    } else {
        extjson::parse(given).ok().map(|d| d.to_string())
    };
    accepted.map_or(Ok(()), |shown| Err(format!("accepted as {shown}")))
}

/// The document taken apart value by value and put together again.
fn rebuilt(document: RawDocument<'_>) -> Document {
    Document::build(|out| {
        for element in document {
            out.append(element.name(), element.value());
        }
    })
}

fn same_bytes(what: &str, found: &[u8], wanted: &[u8]) -> Result<(), String> {
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{what}: {found:02x?}, not {wanted:02x?}"))
    }
}

/// Compares as JSON, so that space does not count, and numbers as text, so that 1.0 is not 1.
fn same_json(what: &str, found: &str, wanted: &str) -> Result<(), String> {
    let parse = |text: &str| {
        serde_json::from_str::<Json>(text).map_err(|e| format!("{what}: {e} in {text}"))
    };
    if parse(found)? == parse(wanted)? {
        Ok(())
    } else {
        Err(format!("{what}: {found}, not {wanted}"))
    }
}

fn text<'j>(case: &'j Json, key: &str) -> &'j str {
    case[key]
        .as_str()
        .unwrap_or_else(|| panic!("the case has no `{key}`: {case}"))
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}
