//! Views to the bytes that wallets receive.
