//! Lines of a tool's report.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process;

/// Prints a line. Whoever reads the report may go before its end (`| head`): the tool's work and its result are the same then.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::tools::say::line(format_args!($($text)*))
    };
}
pub(crate) use say;

pub fn line(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}") {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        Err(error) => {
            eprintln!("the report cannot be written: {error}");
            process::exit(1);
        }
    }
}
