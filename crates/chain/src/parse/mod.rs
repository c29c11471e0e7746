//! Bytes to borrowed views of them.
