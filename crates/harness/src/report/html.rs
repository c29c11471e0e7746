//! `report.html`: one file that asks for nothing.
//!
//! A template (`page/report.html`) is filled with the study; style, script and the chart library are copied into it. Texts of a run are escaped by the
//! template engine; the curves are JSON in which no letter can end the element they stand in. A content policy in the page names the scripts by
//! digest and forbids every request, so that what slipped through would still not run.

use anyhow::Result;
use base64::{Engine, engine::general_purpose::STANDARD};
use minijinja::{Environment, UndefinedBehavior, Value, context};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{
    OURS, numbers,
    plots::{self, Plot},
    study::{RunFacts, Study},
    targets,
};

const TEMPLATE: &str = include_str!("page/report.html");
const STYLE: &str = include_str!("page/report.css");
const SCRIPT: &str = include_str!("page/report.js");
const CHARTS_SCRIPT: &str = include_str!("vendor/uplot/uPlot.iife.min.js");
const CHARTS_STYLE: &str = include_str!("vendor/uplot/uPlot.min.css");
const CHARTS_LICENSE: &str = include_str!("vendor/uplot/LICENSE");

/// Where a run's pictures are in the list of all.
#[derive(Clone, Debug, Default, Serialize)]
struct Pictures {
    /// For each section, for each table.
    tables: Vec<Vec<Vec<usize>>>,
    /// For each chain with samples.
    chains: Vec<(String, Vec<usize>)>,
}

/// The page.
///
/// # Errors
///
/// If the template does not fit the study: a fault of the program.
pub(super) fn page(study: &Study) -> Result<String> {
    let mut plots: Vec<Plot> = Vec::new();
    let pictures: Vec<Pictures> = study
        .runs
        .iter()
        .map(|run| pictures(run, &mut plots))
        .collect();
    let titles: Vec<String> = study.runs.iter().map(RunFacts::title).collect();
    let wanted = match study.names(OURS) {
        true => targets::judge(study, OURS),
        false => Vec::new(),
    };
    let safe = |text: &str| Value::from_safe_string(text.to_owned());
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src {} {}",
        digest(CHARTS_SCRIPT),
        digest(SCRIPT)
    );
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.add_filter("figure", numbers::figure);
    engine.add_filter("ratio", numbers::ratio);
    engine.add_filter("count", numbers::count);
    engine.add_filter("megabytes", |bytes: u64| {
        numbers::figure(bytes as f64 / 1e6)
    });
    engine.add_filter("percent", |part: f64| {
        format!("{:.1}", (part * 100.0).clamp(0.0, 100.0))
    });
    Ok(engine.render_named_str(
        "report.html",
        TEMPLATE,
        context! {
            study => template_value(study)?,
            titles,
            ours => OURS,
            wanted => template_value(&wanted)?,
            pictures => template_value(&pictures)?,
            policy => safe(&policy),
            style => safe(STYLE),
            script => safe(SCRIPT),
            charts_script => safe(CHARTS_SCRIPT),
            charts_style => safe(CHARTS_STYLE),
            charts_license => CHARTS_LICENSE,
            plots => safe(&embedded(&plots)?),
            plot_titles => plots.iter().map(|plot| plot.title.clone()).collect::<Vec<_>>(),
        },
    )?)
}

fn pictures(run: &RunFacts, plots: &mut Vec<Plot>) -> Pictures {
    let names: Vec<String> = run
        .columns
        .iter()
        .map(|column| column.name.clone())
        .collect();
    let mut add = |made: Vec<Plot>| -> Vec<usize> {
        let first = plots.len();
        plots.extend(made);
        (first..plots.len()).collect()
    };
    let tables = run
        .sections
        .iter()
        .map(|section| {
            let of_table = |table| plots::of_table(table, &names);
            section
                .tables
                .iter()
                .map(|table| add(of_table(table)))
                .collect()
        })
        .collect();
    let mut chains: Vec<(String, Vec<usize>)> = Vec::new();
    for (chain, ..) in &run.samples {
        if !chains.iter().any(|(known, _)| known == chain) {
            chains.push((chain.clone(), add(plots::over_time(run, chain, &names))));
        }
    }
    Pictures { tables, chains }
}

/// What the template sees of a struct.
fn template_value(of: &impl Serialize) -> Result<Value> {
    Ok(serde_json::from_value(serde_json::to_value(of)?)?)
}

/// JSON that stays within its element whatever it holds.
fn embedded(plots: &[Plot]) -> Result<String> {
    let json = serde_json::to_string(plots)?;
    Ok(json
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029"))
}

fn digest(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_library_is_the_published_one() {
        let told = include_str!("vendor/uplot/README.md");
        for file in [CHARTS_SCRIPT, CHARTS_STYLE] {
            let digest = const_hex::encode(Sha256::digest(file));
            assert!(told.contains(&digest), "{digest}");
        }
        assert!(CHARTS_LICENSE.starts_with("The MIT License"));
    }

    #[test]
    fn no_script_ends_the_element_it_stands_in() {
        for script in [SCRIPT, CHARTS_SCRIPT] {
            assert!(!script.to_lowercase().contains("</script"));
            assert!(!script.contains("<!--"));
        }
    }
}
