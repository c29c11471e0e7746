//! The messages against the published file.

use lightship_chain::{BlockHash, Height};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};

use super::{Topic, messages};

fn service() -> DescriptorPool {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/zebra");
    let files = protox::compile(["indexer.proto"], [folder]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
}

#[test]
fn a_tip_is_read_as_the_file_describes_it() {
    let described = service()
        .get_message_by_name("zebra.indexer.rpc.BlockHashAndHeight")
        .unwrap();
    let mut message = DynamicMessage::new(described);
    let mut hash = [0; 32];
    hash[0] = 1;
    message.set_field_by_name("hash", Value::Bytes(hash.to_vec().into()));
    message.set_field_by_name("height", Value::U32(7));
    let tip = messages::tip(&message.encode_to_vec()).unwrap();
    assert_eq!(tip.height, Height::new(7));
    assert_eq!(tip.hash, BlockHash::from_display_order(hash));
}

#[test]
fn the_methods_are_those_of_the_file() {
    let service = service()
        .get_service_by_name("zebra.indexer.rpc.Indexer")
        .unwrap();
    let mut named: Vec<_> = service
        .methods()
        .map(|method| method.name().to_owned())
        .collect();
    named.sort();
    assert_eq!(named, [Topic::Tip.method(), Topic::Mempool.method()]);
}
