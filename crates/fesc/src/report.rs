//! The one printer of results: an aligned table, or one JSON object a line.

use std::io::{ErrorKind, Write};

use serde::{Serialize, Serializer};
use serde_json::Value;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A table, when all rows are known.
    Table,
    /// One object a line, as soon as it is known.
    Json,
}

/// One result: names and values, in the order in which they are printed.
#[derive(Debug, Clone, Default)]
pub struct Row {
    shown: Vec<(&'static str, Value)>,
    /// In JSON only: a table with them would be wider than a screen.
    details: Vec<(&'static str, Value)>,
}

impl Row {
    /// An empty row.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one value. A number that is not finite becomes `null`: it was not measured.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.shown.push((name, value.into()));
        self
    }

    /// Adds one value that only JSON has, after all others.
    pub fn detail(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.details.push((name, value.into()));
        self
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.shown.iter().chain(&self.details).map(|(name, value)| (name, value)))
    }
}

/// Prints one line (or a text of its own form) to standard output at once.
pub fn line(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Takes rows and prints them to standard output.
pub struct Report {
    format: Format,
    rows: Vec<Row>,
}

impl Report {
    /// A report without rows.
    pub fn new(format: Format) -> Self {
        Self { format, rows: Vec::new() }
    }

    /// Adds a row; as JSON it is printed at once.
    pub fn add(&mut self, row: Row) -> anyhow::Result<()> {
        match self.format {
            Format::Json => line(&serde_json::to_string(&row)?),
            Format::Table => {
                self.rows.push(row);
                Ok(())
            }
        }
    }

    /// Prints the table, if it is one.
    pub fn finish(self) -> anyhow::Result<()> {
        if self.format == Format::Table && !self.rows.is_empty() {
            let mut out = std::io::stdout().lock();
            out.write_all(table(&self.rows).as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }
}

/// Whether the reader of standard output went away.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = |e: &(dyn std::error::Error + 'static)| {
        e.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
    };
    error.chain().next().is_some_and(io)
}

/// Rows below a line of names; numbers to the right, text to the left. Rows of another kind start a new
/// table.
fn table(rows: &[Row]) -> String {
    let same = |a: &Row, b: &Row| a.shown.iter().map(|c| c.0).eq(b.shown.iter().map(|c| c.0));
    rows.chunk_by(same).map(one_table).collect::<Vec<_>>().join("\n")
}

fn one_table(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let mut lines: Vec<Vec<String>> = vec![first.shown.iter().map(|(name, _)| (*name).to_string()).collect()];
    lines.extend(rows.iter().map(|r| r.shown.iter().map(|(_, v)| cell(v)).collect()));
    let columns = first.shown.len();
    let widths: Vec<usize> =
        (0..columns).map(|c| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0)).collect();
    let text = |c: usize| rows.iter().any(|r| r.shown[c].1.is_string());
    let mut out = String::new();
    for line in &lines {
        let cells = line.iter().enumerate().map(|(c, value)| {
            let pad = " ".repeat(widths[c] - value.chars().count());
            if text(c) { format!("{value}{pad}") } else { format!("{pad}{value}") }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// Four significant digits are enough for a reader; JSON has all of them.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(s) => s.clone(),
        Value::Number(n) if n.is_f64() => number(n.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

fn number(v: f64) -> String {
    let size = v.abs();
    if v == 0.0 {
        "0".into()
    } else if !(1e-3..1e7).contains(&size) {
        format!("{v:.2e}")
    } else {
        let decimals = (3 - size.log10().floor() as i32).max(0) as usize;
        format!("{v:.decimals$}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn json_keeps_the_order_of_the_names_and_all_digits() {
        let row = Row::new()
            .with("z", 1u64)
            .detail("last", 2u64)
            .with("a", "text")
            .with("m", 0.1 + 0.2)
            .with("none", f64::NAN);
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"z":1,"a":"text","m":0.30000000000000004,"none":null,"last":2}"#
        );
    }

    #[test]
    fn tables_are_aligned_and_split_by_kind() {
        let rows = [
            Row::new().with("op", "open").with("us", 0.51234),
            Row::new().with("op", "compare").with("us", 12.0).detail("hidden", 1u64),
            Row::new().with("other", 3u64),
        ];
        assert_eq!(table(&rows), "op           us\nopen     0.5123\ncompare   12.00\n\nother\n    3\n");
    }

    #[test]
    fn numbers_have_four_digits() {
        for (v, text) in [(0.0, "0"), (1234.5, "1234"), (0.001234, "0.001234"), (1e-9, "1.00e-9"), (2.5e9, "2.50e9")] {
            assert_eq!(number(v), text);
        }
    }
}
