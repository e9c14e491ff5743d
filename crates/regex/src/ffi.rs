//! PCRE2's C interface made safe: compiled code, and what a match works in.
//!
//! The rules kept here: code is not changed once it is compiled, so that threads may share it; a match has a scratch of
//! its own, borrowed for as long as it runs; what is given to a callout lives on the stack of the match that calls
//! it; a callout never unwinds into C.

#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::c_void;
use std::ops::{Range, RangeInclusive};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::slice;

use libc::c_int;
use pcre2_sys::{
    PCRE2_AUTO_CALLOUT, PCRE2_CASELESS, PCRE2_DOTALL, PCRE2_ERROR_CALLOUT,
    PCRE2_ERROR_JIT_STACKLIMIT, PCRE2_ERROR_MATCHLIMIT, PCRE2_ERROR_NOMATCH, PCRE2_EXTENDED,
    PCRE2_INFO_CAPTURECOUNT, PCRE2_JIT_COMPLETE, PCRE2_MATCH_INVALID_UTF, PCRE2_MULTILINE,
    PCRE2_UNSET, PCRE2_USE_OFFSET_LIMIT, PCRE2_UTF, pcre2_code_8, pcre2_code_free_8,
    pcre2_compile_8, pcre2_get_error_message_8, pcre2_get_ovector_count_8,
    pcre2_get_ovector_pointer_8, pcre2_jit_compile_8, pcre2_jit_stack_8, pcre2_jit_stack_assign_8,
    pcre2_jit_stack_create_8, pcre2_jit_stack_free_8, pcre2_match_8, pcre2_match_context_8,
    pcre2_match_context_create_8, pcre2_match_context_free_8, pcre2_match_data_8,
    pcre2_match_data_create_8, pcre2_match_data_free_8, pcre2_pattern_info_8,
    pcre2_set_depth_limit_8, pcre2_set_heap_limit_8, pcre2_set_match_limit_8,
    pcre2_set_offset_limit_8,
};

use crate::{Error, Flags};

/// Where code cannot be compiled for the machine its matches are nested, and use the heap, no more than this.
const DEPTH_MAX: u32 = 1_000_000;
const HEAP_KIB_MAX: u32 = 64 * 1024;

/// The stack on which machine code keeps the places to go back to: its size at first.
const JIT_STACK_BYTES_MIN: usize = 32 * 1024;
const JIT_STACK_BYTES_MAX: usize = 1024 * 1024;

/// The work of a callout with the item behind it, and what of the text an item runs over in a unit of work.
const UNITS_OF_A_CALLOUT: usize = 3;
const BYTES_A_UNIT: usize = 16;

/// Bytes captured before that are compared, and groups that a callout is shown, in a unit of work.
const BYTES_COMPARED_A_UNIT: usize = 20;
const GROUPS_A_UNIT: usize = 8;

/// Work between two words with the caller.
const UNITS_A_WORD: usize = 2_000;

type Callout = extern "C" fn(*mut CalloutBlock, *mut c_void) -> c_int;

/// The beginning of PCRE2's callout block, as far as it is read here. PCRE2 adds fields at the end only.
#[repr(C)]
struct CalloutBlock {
    version: u32,
    callout_number: u32,
    capture_top: u32,
    capture_last: u32,
    offset_vector: *mut usize,
    mark: *const u8,
    subject: *const u8,
    subject_length: usize,
    start_match: usize,
    /// Where in the text the match stands.
    current_position: usize,
}

/// The bounds of a match that runs with callouts.
pub(crate) struct Limits {
    pub steps_max: u32,
    pub units_max: u64,
    /// Whether items may compare text that was captured, of which nothing is seen.
    pub refers_back: bool,
}

// The bindings leave this one out.
unsafe extern "C" {
    fn pcre2_set_callout_8(
        context: *mut pcre2_match_context_8,
        callout: Option<Callout>,
        data: *mut c_void,
    ) -> c_int;
}

/// Why a match has no answer.
#[derive(Debug)]
pub(crate) enum Ending {
    Limit,
    /// The machine's code had no room left to go back over.
    Stack,
    /// By the caller.
    Ended,
    Failed(String),
}

/// How code is going to match.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// With a limit of steps only.
    Plain,
    /// With callouts.
    Stepping,
    /// From some places of a text.
    Placed,
}

/// A compiled pattern.
pub(crate) struct Code(NonNull<pcre2_code_8>);

// SAFETY: PCRE2 documents that compiled code is not changed by matching and may be used by several threads; it is
// compiled for the machine before anybody else has it.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    pub fn compile(pattern: &str, flags: Flags, how: Use) -> Result<Code, Error> {
        let mut options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF;
        for (is_set, option) in [
            (flags.caseless, PCRE2_CASELESS),
            (flags.multi_line, PCRE2_MULTILINE),
            (flags.dot_all, PCRE2_DOTALL),
            (flags.extended, PCRE2_EXTENDED),
            (how == Use::Stepping, PCRE2_AUTO_CALLOUT),
            (how == Use::Placed, PCRE2_USE_OFFSET_LIMIT),
        ] {
            if is_set {
                options |= option;
            }
        }
        // Clients are told what is wrong, not where, as MongoDB tells them.
        let (mut error, mut offset) = (0, 0);
        // SAFETY: the pattern's pointer and length belong together, and PCRE2 copies what it needs of it.
        let code = unsafe {
            pcre2_compile_8(
                pattern.as_ptr(),
                pattern.len(),
                options,
                &raw mut error,
                &raw mut offset,
                ptr::null_mut(),
            )
        };
        let Some(code) = NonNull::new(code) else {
            return Err(Error::Pattern(message(error)));
        };
        // A pattern that cannot be compiled for the machine is interpreted, within the same limits.
        // SAFETY: the code was just made and nobody else has it.
        let _ = unsafe { pcre2_jit_compile_8(code.as_ptr(), PCRE2_JIT_COMPLETE) };
        Ok(Code(code))
    }

    /// How many groups the pattern captures.
    pub fn groups(&self) -> u32 {
        let mut count: u32 = 0;
        // SAFETY: the code is alive, and what is asked for is a number of this size.
        let outcome = unsafe {
            pcre2_pattern_info_8(
                self.0.as_ptr(),
                PCRE2_INFO_CAPTURECOUNT,
                (&raw mut count).cast::<c_void>(),
            )
        };
        if outcome == 0 { count } else { 0 }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the code is ours, and no match borrows it any more.
        unsafe { pcre2_code_free_8(self.0.as_ptr()) }
    }
}

/// The memory that PCRE2 works in during a match.
pub(crate) struct Scratch {
    context: NonNull<pcre2_match_context_8>,
    data: NonNull<pcre2_match_data_8>,
    /// Made for the first match that calls back; a short text has room on the thread's own stack.
    stack: Option<NonNull<pcre2_jit_stack_8>>,
}

// SAFETY: nothing in it belongs to a thread, and only one has it at a time, because it is not `Sync`.
unsafe impl Send for Scratch {}

impl Scratch {
    /// For matches of which nothing is asked but whether there is one.
    pub fn new() -> Scratch {
        Scratch::for_groups(0)
    }

    /// For matches whose places are asked for, and those of so many groups.
    pub fn for_groups(groups: u32) -> Scratch {
        // SAFETY: PCRE2 takes its memory from `malloc` where it is given no other.
        let context = unsafe { pcre2_match_context_create_8(ptr::null_mut()) };
        // SAFETY: as above; one pair of offsets is for the whole match.
        let data = unsafe { pcre2_match_data_create_8(groups.saturating_add(1), ptr::null_mut()) };
        let scratch = Scratch {
            context: NonNull::new(context).expect("memory for a match"),
            data: NonNull::new(data).expect("memory for a match"),
            stack: None,
        };
        // SAFETY: the context was just made.
        unsafe { pcre2_set_depth_limit_8(scratch.context.as_ptr(), DEPTH_MAX) };
        // SAFETY: as above.
        unsafe { pcre2_set_heap_limit_8(scratch.context.as_ptr(), HEAP_KIB_MAX) };
        scratch
    }

    /// The places of the last match and of its groups, after it was found.
    pub fn places(&self) -> Vec<Option<Range<usize>>> {
        // SAFETY: the data is ours.
        let pairs = unsafe { pcre2_get_ovector_count_8(self.data.as_ptr()) } as usize;
        // SAFETY: as above.
        let offsets = unsafe { pcre2_get_ovector_pointer_8(self.data.as_ptr()) };
        // SAFETY: PCRE2 documents that there are two offsets for each pair, as long as the data lives and no match runs. After a
        // match those of groups that took no part are set to PCRE2_UNSET.
        let offsets = unsafe { slice::from_raw_parts(offsets, 2 * pairs) };
        let pairs = offsets.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        pairs
            .map(|(start, end)| (start <= end && end != PCRE2_UNSET).then_some(start..end))
            .collect()
    }

    /// Finds a match at or behind `from`, which is no middle of a character.
    pub fn find(
        &mut self,
        code: &Code,
        text: &[u8],
        from: usize,
        steps_max: u32,
    ) -> Result<bool, Ending> {
        // SAFETY: the context is ours; without a callout there is no data for one.
        unsafe { pcre2_set_callout_8(self.context.as_ptr(), None, ptr::null_mut()) };
        self.run(code, text, from, steps_max)
    }

    /// Finds a match that begins at one of the places, with code made for it; the first is no middle of a character.
    pub fn find_from(
        &mut self,
        code: &Code,
        text: &[u8],
        places: RangeInclusive<usize>,
        steps_max: u32,
    ) -> Result<bool, Ending> {
        self.make_stack();
        assert!(places.start() <= places.end() && *places.end() <= text.len());
        // SAFETY: the context is ours.
        unsafe { pcre2_set_offset_limit_8(self.context.as_ptr(), *places.end()) };
        // SAFETY: as above; without a callout there is no data for one.
        unsafe { pcre2_set_callout_8(self.context.as_ptr(), None, ptr::null_mut()) };
        let found = self.run(code, text, *places.start(), steps_max);
        // Other code is not made for such a limit.
        // SAFETY: as above.
        unsafe { pcre2_set_offset_limit_8(self.context.as_ptr(), PCRE2_UNSET) };
        found
    }

    /// Tells `goes_on` of the work that callouts stand for.
    pub fn find_in_steps(
        &mut self,
        code: &Code,
        text: &[u8],
        from: usize,
        limits: Limits,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, Ending> {
        self.make_stack();
        let mut count = Count {
            goes_on,
            units: 0,
            units_done: 0,
            units_max: limits.units_max,
            refers_back: limits.refers_back,
            position: 0,
            panic: None,
        };
        // What PCRE2 does before its first callout runs over the text once, and checks that it is UTF-8.
        if !(count.goes_on)(UNITS_OF_A_CALLOUT + text.len() / BYTES_A_UNIT) {
            return Err(Ending::Ended);
        }
        let data = (&raw mut count).cast::<c_void>();
        // SAFETY: the context is ours, and `count` outlives the match below, after which the callout is taken away.
        unsafe { pcre2_set_callout_8(self.context.as_ptr(), Some(called_out), data) };
        let found = self.run(code, text, from, limits.steps_max);
        // SAFETY: as above.
        unsafe { pcre2_set_callout_8(self.context.as_ptr(), None, ptr::null_mut()) };
        match count.panic.take() {
            Some(payload) => resume_unwind(payload),
            None => found,
        }
    }

    fn run(
        &mut self,
        code: &Code,
        text: &[u8],
        from: usize,
        steps_max: u32,
    ) -> Result<bool, Ending> {
        assert!(from <= text.len(), "a match begins in the text");
        // SAFETY: the context is ours.
        unsafe { pcre2_set_match_limit_8(self.context.as_ptr(), steps_max) };
        // SAFETY: text's pointer and length belong together; code, data and context are alive and nobody else uses the
        // latter two. Text that is no UTF-8 is allowed by the option that the code was compiled with.
        let outcome = unsafe {
            pcre2_match_8(
                code.0.as_ptr(),
                text.as_ptr(),
                text.len(),
                from,
                0,
                self.data.as_ptr(),
                self.context.as_ptr(),
            )
        };
        match outcome {
            PCRE2_ERROR_NOMATCH => Ok(false),
            // Zero: more groups than there are offsets for.
            0.. => Ok(true),
            PCRE2_ERROR_MATCHLIMIT => Err(Ending::Limit),
            PCRE2_ERROR_JIT_STACKLIMIT => Err(Ending::Stack),
            PCRE2_ERROR_CALLOUT => Err(Ending::Ended),
            other => Err(Ending::Failed(message(other))),
        }
    }

    fn make_stack(&mut self) {
        if self.stack.is_some() {
            return;
        }
        // SAFETY: PCRE2 takes the memory from the system.
        let stack = unsafe {
            pcre2_jit_stack_create_8(JIT_STACK_BYTES_MIN, JIT_STACK_BYTES_MAX, ptr::null_mut())
        };
        self.stack = NonNull::new(stack);
        if let Some(stack) = self.stack {
            // SAFETY: the stack lives as long as the context: both go with the scratch.
            unsafe {
                pcre2_jit_stack_assign_8(self.context.as_ptr(), None, stack.as_ptr().cast());
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: all three are ours, and no match uses them any more.
        unsafe { pcre2_match_data_free_8(self.data.as_ptr()) };
        // SAFETY: as above.
        unsafe { pcre2_match_context_free_8(self.context.as_ptr()) };
        if let Some(stack) = self.stack {
            // SAFETY: as above.
            unsafe { pcre2_jit_stack_free_8(stack.as_ptr()) };
        }
    }
}

/// The state that every callout of one match is given.
struct Count<'g> {
    goes_on: &'g mut dyn FnMut(usize) -> bool,
    /// Work that the caller was not told of yet.
    units: usize,
    /// Work of the whole match.
    units_done: u64,
    units_max: u64,
    refers_back: bool,
    /// Where in the text the last callout was.
    position: usize,
    panic: Option<Box<dyn Any + Send>>,
}

impl Count<'_> {
    /// Answers a callout: PCRE2 goes on with 0, and ends the match with any other number. `captured` is the longest text that
    /// the item behind the callout may compare with what is left of the text.
    fn next(&mut self, position: usize, left: usize, captured: usize, groups: usize) -> c_int {
        let moved = position.abs_diff(std::mem::replace(&mut self.position, position));
        let seen = UNITS_OF_A_CALLOUT + moved / BYTES_A_UNIT + groups / GROUPS_A_UNIT;
        self.units_done += (seen + captured.min(left) / BYTES_COMPARED_A_UNIT) as u64;
        // One item compares it several times where it is repeated, up to the end of the text: enough to ask the caller
        // sooner, though not to give the match up.
        let compared = if captured > 0 { left } else { 0 };
        self.units += seen + compared / BYTES_COMPARED_A_UNIT;
        if self.units < UNITS_A_WORD {
            return 0;
        }
        if self.units_done > self.units_max {
            return PCRE2_ERROR_MATCHLIMIT;
        }
        let units = std::mem::take(&mut self.units);
        let goes_on = &mut self.goes_on;
        match catch_unwind(AssertUnwindSafe(|| goes_on(units))) {
            Ok(true) => 0,
            Ok(false) => PCRE2_ERROR_CALLOUT,
            Err(payload) => {
                self.panic = Some(payload);
                PCRE2_ERROR_CALLOUT
            }
        }
    }
}

extern "C" fn called_out(block: *mut CalloutBlock, data: *mut c_void) -> c_int {
    // SAFETY: PCRE2 gives a block that lives as long as the call, and nobody writes to it meanwhile.
    let block = unsafe { &*block };
    // SAFETY: `find_in_steps` gave a pointer to the count on its stack, which nobody else uses during the match.
    let count = unsafe { &mut *data.cast::<Count<'_>>() };
    let groups = block.capture_top as usize;
    let captured = if count.refers_back && groups > 1 {
        // SAFETY: PCRE2 documents that as many pairs of offsets may be read during the call.
        let offsets = unsafe { slice::from_raw_parts(block.offset_vector, 2 * groups) };
        longest(offsets)
    } else {
        0
    };
    let left = block.subject_length.saturating_sub(block.current_position);
    count.next(block.current_position, left, captured, groups)
}

/// The length of the longest text captured: of pairs of offsets, the first stands for the whole match.
fn longest(offsets: &[usize]) -> usize {
    let groups = offsets[2..].chunks_exact(2);
    let set = groups.filter(|pair| pair[0] != PCRE2_UNSET && pair[1] != PCRE2_UNSET);
    set.map(|pair| pair[1].saturating_sub(pair[0]))
        .max()
        .unwrap_or(0)
}

/// PCRE2's words for one of its numbers.
fn message(code: c_int) -> String {
    const MESSAGE_BYTES: usize = 256;
    let mut buffer = [0_u8; MESSAGE_BYTES];
    // SAFETY: the buffer's pointer and length belong together; PCRE2 ends what it writes with a zero.
    let written = unsafe { pcre2_get_error_message_8(code, buffer.as_mut_ptr(), MESSAGE_BYTES) };
    match usize::try_from(written) {
        Ok(len) => String::from_utf8_lossy(&buffer[..len.min(MESSAGE_BYTES)]).into_owned(),
        Err(_) => format!("error {code}"),
    }
}
