//! Sizes that keep the sources and the documents readable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/repository.rs"]
mod repository;

use std::fs;

use repository::{root, sources};

/// The most lines of a source file.
const FILE: usize = 400;
/// The most lines of a function, its head and its last brace included.
const FUNCTION: usize = 80;
/// The most columns of a line of Markdown.
const COLUMNS: usize = 110;

/// Files with this ending, by their path in the repository. Cards of models are generated.
fn files(ending: &str) -> Vec<(String, String)> {
    let root = root();
    let named = sources().into_iter().map(|(p, text)| (p.strip_prefix(&root).unwrap().display().to_string(), text));
    named.filter(|(name, _)| name.ends_with(ending) && !name.contains("/models/")).collect()
}

/// Functions as rustfmt writes them: from `fn` to the first line that is a brace in the same column, with the
/// number of the first line, and the count of lines.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let is_head = |line: &str| {
        let words = line.split_whitespace().map(|w| w.split('(').next().unwrap_or(w));
        let mut words = words.skip_while(|w| ["pub", "const", "async", "unsafe", "extern", "\"C\""].contains(w));
        words.next() == Some("fn") && line.contains("fn ")
    };
    let head = |i: &usize| is_head(lines[*i].trim_start()) && !lines[*i].ends_with(['}', ';']);
    let length = |i: usize| {
        let indent = " ".repeat(lines[i].len() - lines[i].trim_start().len());
        let (end, declaration) = (format!("{indent}}}"), format!("{indent})"));
        for (n, line) in lines[i..].iter().enumerate() {
            // A method without a body ends with its head.
            if *line == end || n > 0 && line.starts_with(&declaration) && line.ends_with(';') {
                return n + 1;
            }
        }
        0
    };
    (0..lines.len()).filter(head).map(|i| (i + 1, length(i))).collect()
}

#[test]
fn source_files_and_functions_are_short() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (name, text) in files(".rs") {
        let lines = text.lines().count();
        if lines > FILE {
            wrong.push(format!("{name}: {lines} lines, at most {FILE}"));
        }
        for (at, lines) in functions(&text) {
            seen += 1;
            if lines > FUNCTION {
                wrong.push(format!("{name}:{at}: a function of {lines} lines, at most {FUNCTION}"));
            }
        }
    }
    assert!(seen > 3000, "only {seen} functions: the test does not find them");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_long_function_is_found() {
    let body = "        step();\n".repeat(90);
    let text = format!(
        "impl A {{\n    fn short(&self);\n\n    pub(crate) const fn long(\n        &self,\n    ) {{\n{body}    }}\n}}\n"
    );
    assert_eq!(functions(&text), [(4, 94)]);
}

/// Tables, code and links cannot be broken.
#[test]
fn lines_of_markdown_have_at_most_110_columns() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (name, text) in files(".md") {
        let mut code = false;
        for (at, line) in text.lines().enumerate() {
            code ^= line.trim_start().starts_with("```");
            let whole = code || line.starts_with("    ") || line.trim_start().starts_with('|');
            if whole || line.contains("](") && line.split("](").next().is_some_and(|l| l.chars().count() <= COLUMNS) {
                continue;
            }
            seen += 1;
            let columns = line.chars().count();
            if columns > COLUMNS {
                wrong.push(format!("{name}:{}: {columns} columns, at most {COLUMNS}", at + 1));
            }
        }
    }
    assert!(seen > 1000, "only {seen} lines of Markdown");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_readme_and_the_glossary_are_short() {
    let lines = |file: &str| -> Vec<String> {
        fs::read_to_string(root().join(file)).unwrap().lines().map(str::to_string).collect()
    };
    let readme = lines("README.md").len();
    assert!(readme <= 100, "README.md has {readme} lines, at most 100");
    // The table's head and its rule are rows too.
    let terms = lines("docs/GLOSSARY.md").iter().filter(|l| l.starts_with('|')).count().saturating_sub(2);
    assert!((1..=20).contains(&terms), "docs/GLOSSARY.md has {terms} terms, at most 20");
}
