//! Transactions, blocks and linked chains, made to order.
