//! Messages with damage anywhere in them, and plain noise: parsing may refuse, and never panics. What
//! it accepts is sound.

use proptest::prelude::*;
use quarry_bson::{RawDocument, doc};
use quarry_wire::{Compressor, HEADER_BYTES, Header, Request, compress, parse};

fn framed(op_code: i32, body: &[u8]) -> Vec<u8> {
    let header = Header {
        message_bytes: HEADER_BYTES + body.len(),
        request_id: 1,
        response_to: 0,
        op_code,
    };
    [&header.to_bytes()[..], body].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let (body, document) = (
        doc! { "insert": "c", "$db": "d" },
        doc! { "_id": 1, "a": [1, { "b": "x" }] },
    );
    let mut sections = vec![0, 0, 0, 0, 0];
    sections.extend_from_slice(body.as_bytes());
    sections.push(1);
    sections.extend_from_slice(&(14 + document.as_bytes().len() as u32).to_le_bytes());
    sections.extend_from_slice(b"documents\0");
    sections.extend_from_slice(document.as_bytes());
    let msg = framed(2013, &sections);
    let mut query = vec![0; 4];
    query.extend_from_slice(b"admin.$cmd\0");
    query.extend_from_slice(&[0; 8]);
    query.extend_from_slice(doc! { "hello": 1 }.as_bytes());
    let mut seeds = vec![framed(2004, &query)];
    for compressor in Compressor::ALL {
        let mut packed = Vec::new();
        compress(&msg, compressor, &mut packed).unwrap();
        seeds.push(packed);
    }
    seeds.push(msg);
    seeds
}

fn check(message: &[u8]) {
    let mut scratch = Vec::new();
    match parse(message, &mut scratch) {
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
        Ok((_, Request::Refused(refused))) => assert!(refused.error.is_answerable()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_messages_are_refused_or_sound(
        seed in prop::sample::select(seeds()),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        keep_whole in any::<bool>(),
    ) {
        let mut message = seed;
        for (place, byte) in damage {
            // The length in the header is set right again below: damage goes behind it.
            let at = 4 + place.index(message.len() - 4);
            message[at] = byte;
        }
        if !keep_whole {
            message.truncate(HEADER_BYTES + cut.index(message.len() - HEADER_BYTES));
        }
        let bytes = message.len() as u32;
        message[..4].copy_from_slice(&bytes.to_le_bytes());
        check(&message);
    }

    #[test]
    fn noise_is_refused_or_sound(
        op_code in prop::sample::select(vec![2004, 2012, 2013]),
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        check(&framed(op_code, &body));
    }

    #[test]
    fn noise_with_a_packed_prelude_is_refused_or_sound(
        id in 0u8..4,
        size in prop_oneof![0i32..400, Just(47_999_984), any::<i32>()],
        body in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        // Sizes that are allowed and large cost a buffer each: few bytes of them will do.
        let size = if size > 1_000_000 && id != 1 { size % 1_000_000 } else { size };
        let prelude = [&2013i32.to_le_bytes()[..], &size.to_le_bytes(), &[id]].concat();
        check(&framed(2012, &[prelude, body].concat()));
    }
}
