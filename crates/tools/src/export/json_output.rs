//! Documents as Extended JSON: one a line, or in one array.

use std::io::{self, Write};

use quarry_bson::{RawDocument, extjson};

use super::output::{Form, Output};

/// Writes JSON.
pub struct JsonOutput {
    form: Form,
    is_array: bool,
    is_first: bool,
}

impl JsonOutput {
    pub fn new(form: Form, is_array: bool) -> JsonOutput {
        JsonOutput {
            form,
            is_array,
            is_first: true,
        }
    }
}

impl Output for JsonOutput {
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.is_array {
            true => out.write_all(b"["),
            false => Ok(()),
        }
    }

    fn document(&mut self, document: RawDocument<'_>, out: &mut dyn Write) -> io::Result<()> {
        if self.is_array && !std::mem::take(&mut self.is_first) {
            out.write_all(b",\n")?;
        }
        let text = match self.form {
            Form::Canonical => extjson::canonical(document),
            Form::Relaxed => extjson::relaxed(document),
        };
        out.write_all(text.as_bytes())?;
        match self.is_array {
            true => Ok(()),
            false => out.write_all(b"\n"),
        }
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match self.is_array {
            true => out.write_all(b"]\n"),
            false => Ok(()),
        }
    }
}
