//! From a recipe to the bytes of a transaction.
//!
//! Spec: protocol §7.1 "Transaction Encoding and Consensus", §7.2 to §7.5 for the parts; ZIP 225 (version 5), ZIP 229 (version 6).

use rand_core::Rng;

use super::{
    Built, Unbuildable,
    curve::{Curve, field_element},
    recipe::{Action, JoinSplit, Note, Recipe, Version},
    script,
};
use crate::parse;

const OVERWINTERED: u32 = 1 << 31;
const FLAG_SPENDS: u8 = 0b001;
const FLAG_OUTPUTS: u8 = 0b010;
const FLAG_CROSS_ADDRESS: u8 = 0b100;
const GROTH16_PROOF_BYTES: usize = 192;
const PHGR13_PROOF_BYTES: usize = 296;
const SIGNATURE_BYTES: usize = 64;

/// The only length a proof over this many actions can have.
const fn halo2_proof_bytes(actions: usize) -> usize {
    2720 + 2272 * actions
}

impl Recipe {
    /// Writes the transaction. The same recipe and the same state of `rng` give the same bytes.
    ///
    /// # Errors
    ///
    /// If the recipe asks for a part that its version cannot hold.
    pub fn build(&self, rng: &mut impl Rng) -> Result<Built, Unbuildable> {
        self.check()?;
        let mut bytes = Vec::with_capacity(self.size_hint());
        let mut writer = Writer {
            out: &mut bytes,
            rng,
        };
        match self.version {
            Version::V1 | Version::V2 | Version::V3 | Version::V4 => writer.v1_to_v4(self),
            Version::V5 | Version::V6 => writer.v5_and_v6(self),
        }
        let (transaction, _) = parse::Transaction::parse(&bytes)
            .expect("what is written here is what the parser reads");
        let id = transaction.id();
        Ok(Built { id, bytes })
    }

    fn check(&self) -> Result<(), Unbuildable> {
        let version = self.version;
        let refuse = |part| Err(Unbuildable { version, part });
        if !self.joinsplits.is_empty() && !(Version::V2..=Version::V4).contains(&version) {
            return refuse("JoinSplits");
        }
        if version < Version::V4
            && (!self.sapling_spends.is_empty() || !self.sapling_outputs.is_empty())
        {
            return refuse("Sapling parts");
        }
        if version < Version::V5 && !self.orchard_actions.is_empty() {
            return refuse("Orchard actions");
        }
        if version < Version::V6 && !self.ironwood_actions.is_empty() {
            return refuse("Ironwood actions");
        }
        Ok(())
    }

    /// Near enough that building seldom moves the buffer.
    fn size_hint(&self) -> usize {
        128 + self.inputs.len() * 150
            + self.outputs.len() * 36
            + self.joinsplits.len() * 1802
            + self.sapling_spends.len() * 384
            + self.sapling_outputs.len() * 948
            + (self.orchard_actions.len() + self.ironwood_actions.len()) * (820 + 64 + 2272 + 2900)
    }
}

/// Appends to `out`, taking what nobody described from `rng`.
struct Writer<'a, R> {
    out: &'a mut Vec<u8>,
    rng: &'a mut R,
}

impl<R: Rng> Writer<'_, R> {
    fn v1_to_v4(&mut self, recipe: &Recipe) {
        let (header, group) = match recipe.version {
            Version::V1 => (1, None),
            Version::V2 => (2, None),
            Version::V3 => (OVERWINTERED | 3, Some(0x03c4_8270)),
            _ => (OVERWINTERED | 4, Some(0x892f_2085)),
        };
        self.u32(header);
        if let Some(group) = group {
            self.u32(group);
        }
        self.transparent(recipe);
        self.u32(recipe.lock_time);
        if recipe.version >= Version::V3 {
            self.u32(recipe.expiry_height);
        }
        if recipe.version == Version::V4 {
            self.sapling_v4(recipe);
        }
        if recipe.version >= Version::V2 {
            self.joinsplits(recipe);
        }
        let has_sapling = !recipe.sapling_spends.is_empty() || !recipe.sapling_outputs.is_empty();
        if has_sapling {
            self.random(SIGNATURE_BYTES);
        }
    }

    fn v5_and_v6(&mut self, recipe: &Recipe) {
        let (version, group) = match recipe.version {
            Version::V6 => (6, 0xd884_b698),
            _ => (5, 0x26a7_270a),
        };
        self.u32(OVERWINTERED | version);
        self.u32(group);
        self.u32(recipe.branch_id);
        self.u32(recipe.lock_time);
        self.u32(recipe.expiry_height);
        self.transparent(recipe);
        self.sapling_v5(recipe);
        // A coinbase spends no notes and must say so. Only Ironwood may say that value can change its address.
        let flags = if recipe.is_coinbase() {
            FLAG_OUTPUTS
        } else {
            FLAG_OUTPUTS | FLAG_SPENDS
        };
        self.actions(&recipe.orchard_actions, flags, recipe.orchard_balance_zat);
        if recipe.version == Version::V6 {
            self.actions(
                &recipe.ironwood_actions,
                flags | FLAG_CROSS_ADDRESS,
                recipe.ironwood_balance_zat,
            );
        }
    }

    fn transparent(&mut self, recipe: &Recipe) {
        self.count(recipe.inputs.len());
        for input in &recipe.inputs {
            self.out.extend_from_slice(input.transaction.as_internal());
            self.u32(input.index);
            match &input.script {
                Some(given) => self.bytes(given),
                None => {
                    let made = script::unlocking(self.rng);
                    self.bytes(&made);
                }
            }
            self.u32(input.sequence);
        }
        self.count(recipe.outputs.len());
        for output in &recipe.outputs {
            self.out.extend_from_slice(&output.value_zat.to_le_bytes());
            self.bytes(&output.script);
        }
    }

    fn joinsplits(&mut self, recipe: &Recipe) {
        self.count(recipe.joinsplits.len());
        for JoinSplit {
            shielded_zat,
            unshielded_zat,
        } in &recipe.joinsplits
        {
            self.out.extend_from_slice(&shielded_zat.to_le_bytes());
            self.out.extend_from_slice(&unshielded_zat.to_le_bytes());
            // Anchor, two nullifiers, two commitments, ephemeral key, random seed, two MACs.
            self.random(9 * 32);
            self.random(if recipe.version == Version::V4 {
                GROTH16_PROOF_BYTES
            } else {
                PHGR13_PROOF_BYTES
            });
            self.random(2 * 601);
        }
        if !recipe.joinsplits.is_empty() {
            // Public key and signature.
            self.random(32 + SIGNATURE_BYTES);
        }
    }

    fn sapling_v4(&mut self, recipe: &Recipe) {
        self.out
            .extend_from_slice(&recipe.sapling_balance_zat.to_le_bytes());
        self.count(recipe.sapling_spends.len());
        for nullifier in &recipe.sapling_spends {
            self.point(Curve::Jubjub);
            self.field_element();
            self.element(*nullifier);
            self.point(Curve::Jubjub);
            self.random(GROTH16_PROOF_BYTES + SIGNATURE_BYTES);
        }
        self.count(recipe.sapling_outputs.len());
        for note in &recipe.sapling_outputs {
            self.point(Curve::Jubjub);
            self.note(note.as_deref(), Curve::Jubjub);
            self.random(GROTH16_PROOF_BYTES);
        }
    }

    fn sapling_v5(&mut self, recipe: &Recipe) {
        let (spends, outputs) = (recipe.sapling_spends.len(), recipe.sapling_outputs.len());
        self.count(spends);
        for nullifier in &recipe.sapling_spends {
            self.point(Curve::Jubjub);
            self.element(*nullifier);
            self.point(Curve::Jubjub);
        }
        self.count(outputs);
        for note in &recipe.sapling_outputs {
            self.point(Curve::Jubjub);
            self.note(note.as_deref(), Curve::Jubjub);
        }
        if spends + outputs == 0 {
            return;
        }
        self.out
            .extend_from_slice(&recipe.sapling_balance_zat.to_le_bytes());
        if spends > 0 {
            self.field_element();
        }
        self.random(spends * (GROTH16_PROOF_BYTES + SIGNATURE_BYTES));
        self.random(outputs * GROTH16_PROOF_BYTES + SIGNATURE_BYTES);
    }

    fn actions(&mut self, actions: &[Action], flags: u8, balance_zat: i64) {
        self.count(actions.len());
        if actions.is_empty() {
            return;
        }
        for action in actions {
            self.point(Curve::Pallas);
            self.element(action.nullifier);
            self.point(Curve::Pallas);
            self.note(action.note.as_deref(), Curve::Pallas);
        }
        self.out.push(flags);
        self.out.extend_from_slice(&balance_zat.to_le_bytes());
        self.field_element();
        let proof = halo2_proof_bytes(actions.len());
        self.count(proof);
        self.random(proof + actions.len() * SIGNATURE_BYTES + SIGNATURE_BYTES);
    }

    /// Commitment, ephemeral key, the two ciphertexts: the same in every shielded pool.
    fn note(&mut self, note: Option<&Note>, curve: Curve) {
        match note {
            Some(note) => {
                self.out.extend_from_slice(&note.commitment);
                self.out.extend_from_slice(&note.ephemeral_key);
                self.out.extend_from_slice(&note.enc_ciphertext);
                self.out.extend_from_slice(&note.out_ciphertext);
            }
            None => {
                self.field_element();
                self.point(curve);
                self.random(580 + 80);
            }
        }
    }

    fn element(&mut self, given: Option<[u8; 32]>) {
        match given {
            Some(given) => self.out.extend_from_slice(&given),
            None => self.field_element(),
        }
    }

    fn field_element(&mut self) {
        let element = field_element(self.rng);
        self.out.extend_from_slice(&element);
    }

    fn point(&mut self, curve: Curve) {
        let point = curve.point(self.rng);
        self.out.extend_from_slice(&point);
    }

    fn random(&mut self, bytes: usize) {
        let start = self.out.len();
        self.out.resize(start + bytes, 0);
        self.rng.fill_bytes(&mut self.out[start..]);
    }

    fn u32(&mut self, number: u32) {
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    fn count(&mut self, count: usize) {
        write_count(self.out, count);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.out.extend_from_slice(bytes);
    }
}

/// Appends a CompactSize. Spec: protocol §7.1, "compactSize uint".
pub(super) fn write_count(out: &mut Vec<u8>, count: usize) {
    match count {
        0..=0xfc => out.push(count as u8),
        0xfd..=0xffff => {
            out.push(0xfd);
            out.extend_from_slice(&(count as u16).to_le_bytes());
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&(count as u32).to_le_bytes());
        }
    }
}
