use super::*;

fn literal(name: &[u8], value: &[u8], coded: u8) -> Vec<u8> {
    let mut block = vec![0];
    block.push(coded | name.len() as u8);
    block.extend_from_slice(name);
    block.push(coded | value.len() as u8);
    block.extend_from_slice(value);
    block
}

#[test]
fn a_status_is_found_plain_and_coded_among_other_headers() {
    // :status 200 by index, content-type by indexed name, then the status.
    let before = [0x88, 0x0f, 0x10, 1, b'x'];
    for (name, value, coded, code) in [
        (&b"grpc-status"[..], &b"0"[..], 0, tonic::Code::Ok),
        (b"grpc-status", b"14", 0, tonic::Code::Unavailable),
        // In Huffman code: the name, "0" (00000 111), "14" (00001 011010 11111), "5" (011011 11).
        (
            &[0x9a, 0xca, 0xc8, 0xb2, 0x12, 0x34, 0xda, 0x8f],
            &[0b0000_0111],
            0x80,
            tonic::Code::Ok,
        ),
        (
            &[0x9a, 0xca, 0xc8, 0xb2, 0x12, 0x34, 0xda, 0x8f],
            &[0b0000_1011, 0b0101_1111],
            0x80,
            tonic::Code::Unavailable,
        ),
        (
            &[0x9a, 0xca, 0xc8, 0xb2, 0x12, 0x34, 0xda, 0x8f],
            &[0b0110_1111],
            0x80,
            tonic::Code::NotFound,
        ),
    ] {
        let block = [&before[..], &literal(name, value, coded)].concat();
        assert_eq!(grpc_status(&block).unwrap(), Some(code), "{value:?}");
    }
    assert_eq!(grpc_status(&before).unwrap(), None);
}

#[test]
fn a_cut_or_hostile_header_block_is_an_error() {
    let whole = literal(b"grpc-status", b"0", 0);
    for length in 1..whole.len() {
        assert!(grpc_status(&whole[..length]).is_err(), "{length} bytes");
    }
    assert!(grpc_status(&[0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
}

#[test]
fn messages_are_counted_however_the_pieces_fall() {
    let stream: Vec<u8> = [0usize, 1, 5, 300, 0]
        .iter()
        .flat_map(|length| {
            let mut frame = vec![0];
            frame.extend_from_slice(&(*length as u32).to_be_bytes());
            frame.extend(vec![7; *length]);
            frame
        })
        .collect();
    for size in 1..stream.len() {
        let mut counter = Counter::summing();
        for piece in stream.chunks(size) {
            counter.take(piece);
        }
        assert!(counter.whole(), "pieces of {size}");
        assert_eq!(counter.messages, 5, "pieces of {size}");
        assert_eq!(counter.bytes, stream.len() as u64);
        assert_eq!(counter.sum, Some(crc32c::crc32c(&stream)));
    }
    assert_eq!(messages(&stream).unwrap().len(), 5);
    let mut counter = Counter::default();
    counter.take(&stream[..stream.len() - 3]);
    assert!(!counter.whole() && messages(&stream[..20]).is_err());
}
