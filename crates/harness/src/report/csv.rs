//! The figures for spreadsheets: every measurement, the medians, what processes took, and verdicts on answers.
//!
//! As RFC 4180 has it. A text that a spreadsheet would take for a formula gets an apostrophe in front.

use super::study::{Proof, Study};
use crate::bench::record::Better;

/// All files: name and text.
pub(super) fn files(study: &Study) -> Vec<(&'static str, String)> {
    vec![
        ("measurements.csv", measurements(study)),
        ("summary.csv", summary(study)),
        ("resources.csv", resources(study)),
        ("compatibility.csv", compatibility(study)),
    ]
}

/// Lines of fields.
struct Sheet(String);

impl Sheet {
    fn new(head: &[&str]) -> Sheet {
        let mut sheet = Sheet(String::new());
        sheet.line(head.iter().map(|name| (*name).to_owned()));
        sheet
    }

    fn line(&mut self, fields: impl IntoIterator<Item = String>) {
        let fields: Vec<String> = fields.into_iter().map(|field| quoted(&field)).collect();
        self.0.push_str(&fields.join(","));
        self.0.push_str("\r\n");
    }
}

fn quoted(field: &str) -> String {
    let number = field.parse::<f64>().is_ok();
    let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']) && !number;
    let guarded = if formula {
        format!("'{field}")
    } else {
        field.to_owned()
    };
    match guarded.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", guarded.replace('"', "\"\"")),
        false => guarded,
    }
}

fn number(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn better(better: Better) -> String {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    }
    .to_owned()
}

fn measurements(study: &Study) -> String {
    let mut sheet = Sheet::new(&[
        "run",
        "suite",
        "chain",
        "server",
        "case",
        "round",
        "metric",
        "unit",
        "value",
        "better",
        "count",
        "digest",
        "least",
        "most",
        "error",
        "ghz",
        "ghz_error",
    ]);
    for run in &study.runs {
        for each in &run.measurements {
            sheet.line([
                run.folder.clone(),
                each.suite.clone(),
                each.chain.clone(),
                each.server.clone(),
                each.case.clone(),
                each.round.to_string(),
                each.metric.clone(),
                each.unit.clone(),
                number(each.value),
                better(each.better),
                each.count.to_string(),
                each.digest.clone().unwrap_or_default(),
                number(each.spread.map(|[least, _]| least)),
                number(each.spread.map(|[_, most]| most)),
                each.error.clone().unwrap_or_default(),
                number(each.ghz),
                each.ghz_error.clone().unwrap_or_default(),
            ]);
        }
    }
    sheet.0
}

fn summary(study: &Study) -> String {
    let mut sheet = Sheet::new(&[
        "run",
        "suite",
        "chain",
        "case",
        "metric",
        "unit",
        "better",
        "server",
        "limit",
        "median",
        "min",
        "max",
        "rounds",
        "to_best",
        "to_limit",
        "best",
        "tie",
        "answers",
        "count_min",
        "count_max",
        "digests",
        "errors",
        "ghz",
        "ghz_errors",
    ]);
    for run in &study.runs {
        for section in &run.sections {
            for table in &section.tables {
                for row in &table.rows {
                    for (column, cell) in table.servers.iter().zip(&row.cells) {
                        let errors: Vec<String> = cell
                            .errors
                            .iter()
                            .map(|(error, times)| format!("{times} x {error}"))
                            .collect();
                        if cell.median.is_none() && errors.is_empty() {
                            continue;
                        }
                        sheet.line([
                            run.folder.clone(),
                            section.suite.clone(),
                            section.chain.clone(),
                            row.case.clone(),
                            table.metric.clone(),
                            table.unit.clone(),
                            better(table.better),
                            column.name.clone(),
                            column.limit.to_string(),
                            number(cell.median),
                            number(cell.min),
                            number(cell.max),
                            cell.rounds.to_string(),
                            number(cell.to_best),
                            number(cell.to_limit),
                            cell.best.to_string(),
                            cell.tie.to_string(),
                            match row.proof {
                                Proof::None => "no digest",
                                Proof::Alone => "one server",
                                Proof::Agree => "agree",
                                Proof::Differ => "DIFFER",
                            }
                            .to_owned(),
                            cell.count[0].to_string(),
                            cell.count[1].to_string(),
                            cell.digests.join(" "),
                            errors.join("; "),
                            number(cell.ghz),
                            cell.ghz_errors.join("; "),
                        ]);
                    }
                }
            }
        }
    }
    sheet.0
}

fn resources(study: &Study) -> String {
    let mut sheet = Sheet::new(&[
        "run",
        "chain",
        "server",
        "suite",
        "seconds",
        "cpu_seconds",
        "rss_anon_max",
        "rss_file_max",
        "read_bytes",
        "written_bytes",
        "threads_max",
        "descriptors_max",
    ]);
    for run in &study.runs {
        for each in &run.resources {
            sheet.line([
                run.folder.clone(),
                each.chain.clone(),
                each.server.clone(),
                each.suite.clone(),
                format!("{:.1}", each.seconds),
                format!("{:.2}", each.cpu),
                each.anon.to_string(),
                each.file.to_string(),
                each.read.to_string(),
                each.written.to_string(),
                each.threads.to_string(),
                each.descriptors.to_string(),
            ]);
        }
    }
    sheet.0
}

fn compatibility(study: &Study) -> String {
    let mut sheet = Sheet::new(&["run", "server", "method", "passed", "failed"]);
    for run in &study.runs {
        for verdicts in &run.compatibility.conform {
            let methods = run.compatibility.methods.iter().zip(&verdicts.methods);
            for (method, [passed, failed]) in methods {
                sheet.line([
                    run.folder.clone(),
                    verdicts.name.clone(),
                    method.clone(),
                    passed.to_string(),
                    failed.to_string(),
                ]);
            }
        }
    }
    sheet.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_formulas_defused() {
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"no\""), "\"say \"\"no\"\"\"");
        assert_eq!(quoted("two\nlines"), "\"two\nlines\"");
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(quoted("@x,y"), "\"'@x,y\"");
        assert_eq!(quoted("-12.5"), "-12.5");
    }
}
