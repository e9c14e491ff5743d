//! Any bytes as a message: not a message, or one that is refused by an answer, or every document in it is valid.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_bson::RawDocument;
use quarry_wire::{Request, parse};

fuzz_target!(|message: &[u8]| {
    // The length in front is set right, so that the fuzzer need not find it.
    let mut message = message.to_vec();
    if message.len() >= 4 {
        let bytes = message.len() as u32;
        message[..4].copy_from_slice(&bytes.to_le_bytes());
    }
    let mut scratch = Vec::new();
    match parse(&message, &mut scratch) {
        Ok((_, Request::Msg(msg))) => {
            RawDocument::validated_any_text(msg.body.as_bytes()).unwrap();
            for sequence in &msg.sequences {
                assert_eq!(sequence.documents().count(), sequence.len());
                for document in sequence.documents() {
                    RawDocument::validated_any_text(document.as_bytes()).unwrap();
                }
            }
        }
        Ok((_, Request::Query(query))) => {
            RawDocument::validated_any_text(query.query.as_bytes()).unwrap();
        }
        Ok((_, Request::Refused(_))) | Err(_) => {}
    }
});
