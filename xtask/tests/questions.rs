//! The questions of ARCHITECTURE.md under "Where to look" lead to what is there: each file, and the function that the second
//! step names.

use xtask::style::Repository;

/// The texts of a table's cell that stand between backquotes.
fn between_backquotes(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn each_question_is_answered_in_two_steps() {
    let repository = Repository::read(&xtask::repository_root()).unwrap();
    let text_of = |path: &str| {
        let path = format!("crates/{path}");
        let mut files = repository.files.iter();
        files.find(|file| file.path == path).map(|file| &*file.text)
    };
    let page = repository
        .files
        .iter()
        .find(|file| file.path == "docs/ARCHITECTURE.md");
    let (_, section) = page.unwrap().text.split_once("## Where to look").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows: Vec<&str> = section
        .lines()
        .filter(|line| line.contains("? |"))
        .collect();
    assert_eq!(rows.len(), 13);
    let mut missing = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [_, first, then] = cells[..] else {
            panic!("a question, the file that leads there, the function: {row}");
        };
        let mut path = None;
        for step in [first, then] {
            let named = between_backquotes(step);
            path = named
                .iter()
                .find(|name| name.ends_with(".rs"))
                .copied()
                .or(path);
            let Some(text) = path.and_then(text_of) else {
                missing.push(format!("{row}: no such file"));
                continue;
            };
            let items = named.iter().filter(|name| !name.ends_with(".rs"));
            for item in items {
                let item = item.rsplit("::").next().unwrap_or(item);
                let declared = ["fn ", "struct ", "const ", "static "];
                if !declared
                    .iter()
                    .any(|kind| text.contains(&format!("{kind}{item}")))
                    && !item.starts_with('$')
                {
                    missing.push(format!("{row}: no `{item}`"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "\n{}\n", missing.join("\n"));
}
