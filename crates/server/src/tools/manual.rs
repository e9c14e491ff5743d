//! `quarry man` and `quarry completions`: the manual pages and what shells complete, made from the flags themselves. Packages
//! install them.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::process::config::CommandLine;

/// Writes a page a command into the directory.
pub fn write_pages(directory: &Path) -> ExitCode {
    match clap_mangen::generate_to(command(), directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quarry: man: {}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}

/// Prints what a shell needs to complete `quarry`.
pub fn print_completions(shell: Shell) -> ExitCode {
    clap_complete::generate(shell, &mut command(), "quarry", &mut io::stdout());
    ExitCode::SUCCESS
}

fn command() -> clap::Command {
    CommandLine::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shown_command_has_a_page_and_is_completed() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(write_pages(directory.path()), ExitCode::SUCCESS);
        let mut completions = Vec::new();
        clap_complete::generate(Shell::Bash, &mut command(), "quarry", &mut completions);
        let completions = String::from_utf8(completions).unwrap();
        for shown in command()
            .get_subcommands()
            .filter(|each| !each.is_hide_set())
        {
            let page = directory
                .path()
                .join(format!("quarry-{}.1", shown.get_name()));
            assert!(page.exists(), "{}", page.display());
            assert!(
                completions.contains(shown.get_name()),
                "{}",
                shown.get_name()
            );
        }
        let serve = std::fs::read_to_string(directory.path().join("quarry-serve.1")).unwrap();
        assert!(serve.contains("dbpath") && !serve.contains("auditSchema"));
    }
}
