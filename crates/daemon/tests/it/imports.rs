//! Holds the import table of `ARCHITECTURE.md` against `cargo metadata`.

use std::{collections::BTreeMap, fs, path::Path};

use cargo_metadata::{Metadata, MetadataCommand};

struct Room {
    may_import: Vec<String>,
    must_never_see: Vec<String>,
}

fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
}

fn list(cell: &str) -> Vec<String> {
    cell.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(String::from)
        .collect()
}

/// The rows of the table whose head is `| crate | may import | must never see | …`.
fn table() -> BTreeMap<String, Room> {
    let text = fs::read_to_string(workspace_root().join("ARCHITECTURE.md")).unwrap();
    text.lines()
        .skip_while(|line| !line.starts_with("| crate | may import | must never see |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let room = Room {
                may_import: list(cells[1]),
                must_never_see: list(cells[2]),
            };
            (cells[0].to_owned(), room)
        })
        .collect()
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(workspace_root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .unwrap()
}

/// What the table forbids in the workspace as it is, one line each.
fn violations(table: &BTreeMap<String, Room>, metadata: &Metadata) -> Vec<String> {
    let mut found = Vec::new();
    let mut rooms = Vec::new();
    for package in &metadata.packages {
        let Some(name) = package.name.strip_prefix("lightship-") else {
            found.push(format!(
                "package {} lacks the prefix lightship-",
                package.name
            ));
            continue;
        };
        rooms.push(name.to_owned());
        let Some(room) = table.get(name) else {
            found.push(format!("{name} has no row in the table"));
            continue;
        };
        for dependency in &package.dependencies {
            if let Some(other) = dependency.name.strip_prefix("lightship-")
                && other != name
                && !room.may_import.iter().any(|allowed| allowed == other)
            {
                found.push(format!("{name} imports {other}"));
            }
            if room.must_never_see.contains(&dependency.name) {
                found.push(format!("{name} sees {}", dependency.name));
            }
        }
    }
    found.extend(
        table
            .keys()
            .filter(|name| !rooms.contains(name))
            .map(|name| format!("{name} is no room")),
    );
    found
}

#[test]
fn the_rooms_import_only_what_the_architecture_allows() {
    assert_eq!(violations(&table(), &metadata()), Vec::<String>::new());
}

#[test]
fn a_forbidden_import_would_be_found() {
    let mut strict = table();
    strict.get_mut("ingest").unwrap().may_import.clear();
    strict
        .get_mut("index")
        .unwrap()
        .must_never_see
        .push("memmap2".into());
    let found = violations(&strict, &metadata());
    assert!(
        found.contains(&"ingest imports index".to_owned()),
        "{found:?}"
    );
    assert!(
        found.contains(&"index sees memmap2".to_owned()),
        "{found:?}"
    );
}
