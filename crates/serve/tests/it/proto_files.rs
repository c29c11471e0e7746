//! The published files are the published files.

use sha2::{Digest as _, Sha256};

#[test]
fn the_proto_files_have_the_digests_their_page_names() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    let page = std::fs::read_to_string(format!("{folder}/README.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `walletrpc/"))
        .map(|line| line.split('`').collect())
        .collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let bytes = std::fs::read(format!("{folder}/{}", row[1])).unwrap();
        assert_eq!(
            const_hex::encode(Sha256::digest(bytes)),
            row[3],
            "{}",
            row[1]
        );
    }
}
