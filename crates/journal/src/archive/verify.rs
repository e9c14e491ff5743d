//! Looks through a whole archive: every byte under its checksum, every group behind the one before it, every piece as its header
//! says, every segment of each line behind the one before it, and the tip.
//!
//! Segments before the first one of a line may have been removed: that is no damage, and nothing is said of it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::directory::retry;
use super::history::{ArchivedSegment, History};
use super::line::Line;
use super::piece::{Key, Piece, damaged};
use super::tip::{self, FoundTip, Tip};
use crate::chain::Link;
use crate::error::{Error, Result};
use crate::group_header::GroupHeader;

impl History {
    /// Reads every byte; what is damaged or missing. `progress` is told of the bytes of each piece.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Vec<Error> {
        let mut damages = Vec::new();
        for (&key, segment) in &self.segments {
            match self.verify_segment(key, segment) {
                Ok(mut found) => damages.append(&mut found),
                Err(error) => damages.push(error),
            }
            progress(segment.pieces.iter().map(Piece::bytes).sum());
        }
        for piece in &self.behind_holes {
            let why = "bytes of its segment are missing before it";
            damages.push(damaged(&piece.name(), 0, why));
        }
        match self.lines() {
            Ok(lines) => damages.append(&mut self.gaps(&lines)),
            Err(error) => damages.push(error),
        }
        damages.extend(self.verify_tip().err());
        damages
    }

    /// Finds damage in the bytes of the segment; an error where they cannot be read.
    fn verify_segment(&self, key: Key, segment: &ArchivedSegment) -> Result<Vec<Error>> {
        let found = self.verify_pieces(segment);
        match found {
            // Whoever archives has taken over pieces since they were listed.
            Err(Error::Io { action: "open", .. }) => {
                retry(&|| self.verify_pieces(&self.fresh(key)?))
            }
            found => found,
        }
    }

    fn verify_pieces(&self, segment: &ArchivedSegment) -> Result<Vec<Error>> {
        let mut damages = Vec::new();
        for piece in &segment.pieces {
            match piece.read_body(&*self.files, &mut |_, _| Ok(())) {
                Err(damage @ Error::Damaged { .. }) => damages.push(damage),
                read => read?,
            }
        }
        // What is wrong behind damage follows from it.
        if damages.is_empty() {
            damages.extend(self.verify_groups(segment)?);
        }
        Ok(damages)
    }

    /// The first place at which a group does not go on from the one before it, or a piece is not as its header says.
    fn verify_groups(&self, segment: &ArchivedSegment) -> Result<Option<Error>> {
        let mut follower = Follower::new(segment);
        let walked = segment.walk(&*self.files, 0, &mut |group, number| match follower
            .follow(group, number)
        {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        match walked {
            Err(damage @ Error::Damaged { .. }) => return Ok(Some(damage)),
            walked => walked?,
        }
        follower.finish();
        Ok(follower.damage)
    }

    /// Where something is missing in a line, which several lines may have in common.
    fn gaps(&self, lines: &[Line]) -> Vec<Error> {
        let mut told = BTreeSet::new();
        let mut gaps = Vec::new();
        for line in lines {
            let mut last_lsn = 0;
            for (at, stretch) in line.stretches.iter().enumerate() {
                let segment = &self.segments[&stretch.key];
                // A gap that the journal has recorded is no damage of the archive.
                let is_gap = at > 0 && stretch.is_behind_gap && !segment.header.is_behind_gap();
                if is_gap && told.insert(stretch.key) {
                    let before = line.stretches[at - 1].key.sequence;
                    let why = missing_between(before, stretch.key.sequence, last_lsn);
                    gaps.push(damaged(&segment.pieces[0].name(), 0, &why));
                }
                last_lsn = last_lsn.max(stretch.last_lsn);
            }
        }
        gaps
    }

    fn verify_tip(&self) -> Result<()> {
        if matches!(Tip::find(&*self.files)?, FoundTip::Damaged) {
            return Err(damaged(tip::NAME, 0, "it fails its checksum"));
        }
        let Some(tip) = self.lost_tip() else {
            return Ok(());
        };
        let segment = self.segments.get(&tip.key());
        let last_lsn = segment.map_or(0, ArchivedSegment::last_lsn);
        let why = format!(
            "it says that segment {} is here up to record {}, and {} is the last one",
            tip.sequence, tip.lsn, last_lsn
        );
        Err(damaged(tip::NAME, 0, &why))
    }
}

fn missing_between(before: u64, sequence: u64, last_lsn: u64) -> String {
    match sequence - before {
        1 => format!("records behind {last_lsn} are missing before it"),
        2 => format!("segment {} is missing before it", before + 1),
        _ => format!(
            "segments {} to {} are missing before it",
            before + 1,
            sequence - 1
        ),
    }
}

/// Follows the groups of a segment, and sums up those of each piece anew.
struct Follower<'s> {
    segment: &'s ArchivedSegment,
    link: Link,
    /// The piece that is being followed, by its number, as its groups say that it is.
    current: Option<(usize, Piece)>,
    damage: Option<Error>,
}

impl Follower<'_> {
    fn new(segment: &ArchivedSegment) -> Follower<'_> {
        Follower {
            segment,
            link: Link::behind_header(&segment.header, segment.header_crc, 0),
            current: None,
            damage: None,
        }
    }

    /// Takes the next group in; whether it goes on from the one before.
    fn follow(&mut self, group: &GroupHeader, number: usize) -> bool {
        if self.current.as_ref().is_none_or(|(at, _)| *at != number) {
            self.finish();
            if self.link.next_lsn == 0 {
                // The first group of a segment that continues an incarnation is believed.
                self.link.next_lsn = group.first_lsn;
            }
            let piece = &self.segment.pieces[number];
            self.current = Some((number, Piece::begin(piece.key, piece.from, &self.link)));
        }
        if let Some((_, piece)) = &mut self.current {
            if !self.link.accepts(group) {
                let offset = piece.to;
                let name = self.segment.pieces[number].name();
                let why = "the group does not go on from the one before it";
                self.damage
                    .get_or_insert_with(|| damaged(&name, offset, why));
            }
            piece.note(group);
        }
        self.link.advance(group);
        self.damage.is_none()
    }

    /// Holds the piece that was followed against its header.
    fn finish(&mut self) {
        let Some((number, followed)) = self.current.take() else {
            return;
        };
        let stored = &self.segment.pieces[number];
        let expected = Piece {
            is_finished: stored.is_finished,
            body_crc: stored.body_crc,
            ..followed
        };
        if expected != *stored {
            let why = "its header says something else than its groups";
            self.damage
                .get_or_insert_with(|| damaged(&stored.name(), 0, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::piece::PIECE_HEADER_BYTES;
    use super::super::writer::Archive;
    use super::*;
    use crate::files::simulated::SimulatedFiles;
    use crate::hooks::tests::NoOwner;
    use crate::{Identity, Journal, Options};

    /// An archive with one piece, of three groups.
    fn archived() -> SimulatedFiles {
        let identity = Identity {
            database: [1; 16],
            engine: "memory".to_owned(),
        };
        let options = Options {
            segment_bytes: 16 * 1024,
            background: false,
            ..Options::default()
        };
        let (files, archived) = (SimulatedFiles::new(), SimulatedFiles::new());
        let journal_files = Arc::new(files.clone());
        let owner = Arc::new(NoOwner);
        let journal = Journal::open(journal_files, options, identity.clone(), 0, owner).unwrap();
        for payload in [b"one", b"two", b"six"] {
            journal.submit(payload).unwrap();
        }
        let mut archive = Archive::open(Arc::new(archived.clone()), &identity).unwrap();
        journal.archive(&mut archive, true).unwrap();
        archived
    }

    /// The one piece, its groups, and the bytes of the segment that it holds.
    fn read(archived: &SimulatedFiles) -> (Piece, Vec<GroupHeader>, Vec<u8>) {
        let history = History::read(Arc::new(archived.clone())).unwrap();
        let segment = history.segments.values().next().unwrap();
        let mut groups = Vec::new();
        let mut note = |group: &GroupHeader, _| {
            groups.push(*group);
            ControlFlow::Continue(())
        };
        segment.walk(&*history.files, 0, &mut note).unwrap();
        let piece = segment.pieces[0].clone();
        let bytes = archived.content(&piece.name()).unwrap();
        (piece, groups, bytes[PIECE_HEADER_BYTES..].to_vec())
    }

    /// Puts a piece with good checksums in the place of the one that is there.
    fn replace(archived: &SimulatedFiles, old: &Piece, mut new: Piece, body: &[u8]) {
        use crate::files::Files;
        archived.remove(&old.name()).unwrap();
        new.body_crc = crc32c::crc32c(body);
        archived.replace(&new.name(), [&new.encode()[..], body].concat());
    }

    fn said(archived: &SimulatedFiles) -> Vec<String> {
        let history = History::read(Arc::new(archived.clone())).unwrap();
        let damages = history.verify(&mut |_| {});
        damages.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_group_that_is_missing_between_two_others_is_noticed() {
        let archived = archived();
        assert_eq!(said(&archived), [""; 0]);
        let (piece, groups, body) = read(&archived);
        assert_eq!(groups.len(), 3);
        let second = body.len() as u64 - groups[2].group_bytes() - groups[1].group_bytes();
        let third = second + groups[1].group_bytes();
        let without = [&body[..second as usize], &body[third as usize..]].concat();
        let shorter = Piece {
            to: without.len() as u64,
            ..piece.clone()
        };
        replace(&archived, &piece, shorter, &without);
        let said = said(&archived);
        let expected = format!("offset {second}: the group does not go on");
        assert!(said.len() == 1 && said[0].contains(&expected), "{said:?}");
    }

    #[test]
    fn a_header_that_says_something_else_is_noticed() {
        type Change = fn(&mut Piece);
        let changes: [Change; 5] = [
            |piece| piece.last_crc ^= 1,
            |piece| piece.previous_crc ^= 1,
            |piece| piece.first_unix_ms += 1,
            |piece| piece.latest_unix_ms += 1,
            |piece| piece.behind.digest ^= 1,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let archived = archived();
            let (piece, _, body) = read(&archived);
            let mut changed = piece.clone();
            change(&mut changed);
            replace(&archived, &piece, changed, &body);
            let said = said(&archived);
            let is_named = said.len() == 1 && said[0].contains("something else than its groups");
            assert!(is_named, "change {number}: {said:?}");
        }
    }
}
