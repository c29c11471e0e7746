//! Empty room: see the crate's description in its manifest.
