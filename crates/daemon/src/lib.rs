//! The program's parts.
