//! `report.md`.

use std::fmt::Write;

use super::{
    OURS,
    numbers::{count, figure, ratio},
    study::{Cell, Column, Proof, Row, RunFacts, Section, Study, Table},
    targets,
};
use crate::bench::record::Better;

/// The whole page.
pub(super) fn page(study: &Study) -> String {
    let mut page = String::from("# Bench report\n");
    page.push_str(
        "\nA figure is the median of its rounds, with least and most in brackets. `of best` and `of limit` say how near it comes to the best server and to the \
         best limit of its row: 1 is as good, 0.5 half as good. **Bold** is best; ~ is behind with a spread that overlaps the best one's. \
         Rows whose answers differ are marked.\n",
    );
    if !study.notes.is_empty() {
        page.push_str("\n## Notes\n\n");
        for note in &study.notes {
            line(&mut page, format_args!("- {}", text(note)));
        }
    }
    if study.names(OURS) {
        line(&mut page, format_args!("\n## What is wanted of {OURS}\n"));
        page.push_str(&targets::table(&targets::judge(study, OURS)));
        page.push('\n');
    }
    for run in &study.runs {
        facts(&mut page, run);
        score(&mut page, run);
        compatibility(&mut page, run);
        for section in &run.sections {
            suite(&mut page, section);
        }
        resources(&mut page, run);
    }
    page
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _ = writeln!(page, "{text}");
}

/// A text of a run, in which nothing is markup.
pub(super) fn text(raw: &str) -> String {
    let mut safe = String::new();
    for letter in raw.chars() {
        match letter {
            '\n' | '\r' | '\t' => safe.push(' '),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '!' | '~' | '#' => {
                safe.push('\\');
                safe.push(letter);
            }
            other => safe.push(other),
        }
    }
    safe
}

/// A block of text as it is: its fence is longer than any in it.
fn block(page: &mut String, raw: &str) {
    let longest = raw
        .split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    line(page, format_args!("\n{fence}\n{}\n{fence}", raw.trim_end()));
}

fn table_head(page: &mut String, columns: &[String]) {
    line(page, format_args!("\n| {} |", columns.join(" | ")));
    let rules = columns
        .iter()
        .enumerate()
        .map(|(nth, _)| if nth == 0 { "---" } else { "---:" });
    line(
        page,
        format_args!("| {} |", rules.collect::<Vec<_>>().join(" | ")),
    );
}

fn facts(page: &mut String, run: &RunFacts) {
    let machine = &run.run.machine;
    line(page, format_args!("\n## {}\n", text(&run.title())));
    let load = |load: [f64; 3]| load.map(figure).join(", ");
    for (name, value) in [
        ("started", run.run.started.clone()),
        ("finished", run.run.finished.clone()),
        ("seed", run.run.seed.to_string()),
        ("host", machine.host.clone()),
        (
            "processor",
            format!("{}, {} cores", machine.cpu, machine.cores),
        ),
        (
            "memory",
            format!("{} MiB", count(machine.memory_bytes >> 20)),
        ),
        ("kernel", machine.kernel.clone()),
        (
            "clock governor",
            machine.governor.clone().unwrap_or_default(),
        ),
        ("load before", load(machine.load_before)),
        ("load after", load(machine.load_after)),
    ] {
        if !value.is_empty() {
            line(page, format_args!("- {name}: {}", text(&value)));
        }
    }
    table_head(
        page,
        &["server", "kind", "version", "cores", "started as"].map(str::to_owned),
    );
    for server in &run.run.servers {
        let cores = server.pinned_to.as_ref().map(|cores| format!("{cores:?}"));
        line(
            page,
            format_args!(
                "| {} | {:?} | {} | {} | {} |",
                text(&server.name),
                server.kind,
                text(&server.version),
                text(&cores.unwrap_or_else(|| "any".to_owned())),
                text(&server.start.join(" "))
            ),
        );
    }
    table_head(
        page,
        &["chain", "blocks", "bytes", "made by", "digest"].map(str::to_owned),
    );
    for chain in &run.run.chains {
        line(
            page,
            format_args!(
                "| {} | {} | {} | {} | {} |",
                text(&chain.name),
                count(chain.blocks),
                count(chain.bytes),
                text(&chain.command),
                text(&chain.digest)
            ),
        );
    }
    page.push_str("\nCommand:\n");
    block(page, &run.run.command.join(" "));
    page.push_str("\nPlan:\n");
    block(page, &run.run.plan);
}

fn score(page: &mut String, run: &RunFacts) {
    if run.score.is_empty() {
        return;
    }
    page.push_str("\n### Wins and losses\n\nRows of all tables below. `alone`: no other server has a figure there.\n");
    table_head(
        page,
        &[
            "server",
            "best",
            "overlapping",
            "behind",
            "alone",
            "failed",
            "answers differ",
        ]
        .map(str::to_owned),
    );
    for each in &run.score {
        line(
            page,
            format_args!(
                "| {} | {} | {} | {} | {} | {} | {} |",
                text(&each.server),
                each.best,
                each.tie,
                each.behind,
                each.alone,
                each.failed,
                each.disputed
            ),
        );
    }
}

fn compatibility(page: &mut String, run: &RunFacts) {
    let found = &run.compatibility;
    if !found.conform.is_empty() {
        page.push_str("\n### Compatibility\n\nCases of `conform` that passed, of all.\n");
        let mut head = vec!["method".to_owned()];
        head.extend(found.conform.iter().map(|each| text(&each.name)));
        table_head(page, &head);
        let cell = |[passed, failed]: [u64; 2]| match failed {
            0 => format!("{passed}/{passed}"),
            _ => format!("**{passed}/{}**", passed + failed),
        };
        for (nth, method) in found.methods.iter().enumerate() {
            let cells = found.conform.iter().map(|each| cell(each.methods[nth]));
            let cells: Vec<String> = cells.collect();
            line(
                page,
                format_args!("| {} | {} |", text(method), cells.join(" | ")),
            );
        }
        let all = found
            .conform
            .iter()
            .map(|each| cell([each.passed, each.failed]));
        let all: Vec<String> = all.collect();
        line(page, format_args!("| all | {} |", all.join(" | ")));
    }
    for pair in &found.compare {
        line(
            page,
            format_args!(
                "\n{}: {} and {} were asked {} questions; {} answers equal, {} different.\n",
                text(&pair.name),
                text(&pair.a),
                text(&pair.b),
                count(pair.asked),
                count(pair.equal),
                count(pair.different)
            ),
        );
        for field in &pair.fields {
            line(
                page,
                format_args!(
                    "- {} {}: {} places in {} answers",
                    text(&field.method),
                    text(&field.field),
                    count(field.places),
                    count(field.answers)
                ),
            );
        }
    }
}

fn suite(page: &mut String, section: &Section) {
    line(
        page,
        format_args!("\n### {} on {}", text(&section.suite), text(&section.chain)),
    );
    if !section.about.is_empty() {
        line(page, format_args!("\n{}", section.about));
    }
    match section.flat {
        true => flat(page, section),
        false => section.tables.iter().for_each(|table| metric(page, table)),
    }
}

fn direction(table: &Table) -> &'static str {
    match (table.compared, table.better) {
        (false, _) => "of unlike amounts of work: not compared",
        (true, Better::Higher) => "more is better",
        (true, Better::Lower) => "less is better",
    }
}

fn figures_head(page: &mut String, first: &str, columns: &[Column], ghz: bool) {
    let mut head = vec![first.to_owned()];
    head.extend(columns.iter().map(|column| match column.limit {
        true => format!("{} (limit)", text(&column.name)),
        false => text(&column.name),
    }));
    head.extend(ghz.then(|| "ghz".to_owned()));
    head.push("answers".to_owned());
    table_head(page, &head);
}

fn figures_row(page: &mut String, name: &str, columns: &[Column], row: &Row, ghz: bool) {
    let cells = columns.iter().zip(&row.cells);
    let mut cells: Vec<String> = cells.map(|(column, cell)| figures(column, cell)).collect();
    cells.extend(ghz.then(|| second_opinion(columns, row)));
    line(
        page,
        format_args!(
            "| {name} | {} | {} |",
            cells.join(" | "),
            proof(columns, row)
        ),
    );
}

/// All metrics of the one case in one table.
fn flat(page: &mut String, section: &Section) {
    let Some(first) = section.tables.first() else {
        return;
    };
    if let Some(row) = first.rows.first() {
        line(page, format_args!("\n{}", text(&row.case)));
    }
    figures_head(page, "measured", &first.servers, false);
    for table in &section.tables {
        let name = format!(
            "{}, {} ({})",
            text(&table.metric),
            text(&table.unit),
            direction(table)
        );
        for row in &table.rows {
            figures_row(page, &name, &table.servers, row, false);
        }
    }
}

fn metric(page: &mut String, table: &Table) {
    line(
        page,
        format_args!(
            "\n{}, {} ({})",
            text(&table.metric),
            text(&table.unit),
            direction(table)
        ),
    );
    figures_head(page, "case", &table.servers, table.ghz);
    for row in &table.rows {
        figures_row(page, &text(&row.case), &table.servers, row, table.ghz);
    }
}

fn figures(column: &Column, cell: &Cell) -> String {
    let mut parts = Vec::new();
    match cell.median {
        Some(_) if cell.best => parts.push(format!("**{}**", cell.text())),
        Some(_) if cell.tie => parts.push(format!("~ {}", cell.text())),
        _ => parts.push(cell.text()),
    }
    if let (Some(to_best), false, false) = (cell.to_best, cell.best, column.limit) {
        parts.push(format!("{} of best", ratio(to_best)));
    }
    if let (Some(to_limit), false) = (cell.to_limit, column.limit) {
        parts.push(format!("{} of limit", ratio(to_limit)));
    }
    if let (Some(min), Some(max)) = (cell.min, cell.max)
        && (cell.rounds > 1 || min < max)
    {
        parts.push(format!(
            "({} to {}, n={})",
            figure(min),
            figure(max),
            cell.rounds
        ));
    }
    for (error, times) in &cell.errors {
        parts.push(format!("{times} x {}", text(error)));
    }
    parts.join(" ")
}

/// What ghz found of each server, beside our own figures of the row.
fn second_opinion(columns: &[Column], row: &Row) -> String {
    let told = columns.iter().zip(&row.cells).flat_map(|(column, cell)| {
        let name = text(&column.name);
        let found = cell.ghz.map(|found| format!("{name} {}", figure(found)));
        let errors = cell.ghz_errors.iter();
        let errors: Vec<String> = errors
            .map(|error| format!("{name}: {}", text(error)))
            .collect();
        found.into_iter().chain(errors)
    });
    told.collect::<Vec<_>>().join(", ")
}

fn proof(columns: &[Column], row: &Row) -> String {
    match row.proof {
        Proof::None => "no digest".to_owned(),
        Proof::Alone => "one server".to_owned(),
        Proof::Agree => "agree".to_owned(),
        Proof::Differ => {
            let told = columns
                .iter()
                .zip(&row.cells)
                .filter(|(column, _)| !column.limit);
            let told = told.flat_map(|(column, cell)| {
                let name = text(&column.name);
                cell.digests.iter().map(move |digest| {
                    let start: String = digest.chars().take(8).collect();
                    format!("{name} {}", text(&start))
                })
            });
            format!("**DIFFER** {}", told.collect::<Vec<_>>().join(", "))
        }
    }
}

fn resources(page: &mut String, run: &RunFacts) {
    if run.resources.is_empty() {
        return;
    }
    page.push_str(
        "\n### Taken by each server's process\n\nFrom samples of a second: CPU and disk are sums, memory the most at one time.\n",
    );
    table_head(
        page,
        &[
            "suite",
            "chain",
            "server",
            "seconds",
            "CPU s",
            "anonymous MB",
            "file-backed MB",
            "read MB",
            "written MB",
            "threads",
            "descriptors",
        ]
        .map(str::to_owned),
    );
    let megabytes = |bytes: u64| figure(bytes as f64 / 1e6);
    for each in &run.resources {
        let suite = match each.suite.as_str() {
            "" => "(between suites)",
            suite => suite,
        };
        line(
            page,
            format_args!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                text(suite),
                text(&each.chain),
                text(&each.server),
                figure(each.seconds),
                figure(each.cpu),
                megabytes(each.anon),
                megabytes(each.file),
                megabytes(each.read),
                megabytes(each.written),
                count(each.threads),
                count(each.descriptors)
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_markup() {
        assert_eq!(text("a|b\n<i>`x`"), "a\\|b &lt;i&gt;\\`x\\`");
        let mut page = String::new();
        block(&mut page, "````\nplan");
        assert!(page.contains("`````\n````\nplan\n`````"), "{page}");
    }
}
