//! How many threads may work on a pipeline, and the sizes of what they share out among them.

use crate::parameters::PIPELINE_THREADS;

/// The bounds of the threads of one pipeline. Its results are the same whatever they are.
#[derive(Debug, Clone, Copy)]
pub struct ThreadBounds {
    /// The threads that may work at the same time, the pipeline's own among them. None for what the parameter
    /// `internalQueryPipelineThreadsMax` says when it comes to it.
    pub threads_max: Option<usize>,
    /// The documents after which a pipeline is a long one, and after which it looks for idle processors again.
    pub documents_alone: u64,
    /// The documents that a thread reads about before it takes another part.
    pub part_documents: u64,
    /// The documents of which a helper thread hands in rows at once. It looks after each of these whether somebody else wants its
    /// processor.
    pub piece_documents: u64,
    /// A helper thread works only while a processor is idle (`turns`).
    pub waits_for_idle: bool,
    /// After so many pieces a helper thread ends, in the middle of a part.
    pub pieces_max: u64,
}

impl Default for ThreadBounds {
    fn default() -> ThreadBounds {
        ThreadBounds {
            threads_max: None,
            // Some four milliseconds: a thread more costs less than a tenth of one.
            documents_alone: 8192,
            part_documents: 4096,
            piece_documents: 256,
            waits_for_idle: true,
            pieces_max: u64::MAX,
        }
    }
}

impl ThreadBounds {
    /// The threads that may help the pipeline's own one.
    pub(super) fn helpers_max(&self) -> usize {
        let parameter = || usize::try_from(PIPELINE_THREADS.get()).unwrap_or(usize::MAX);
        let threads = self.threads_max.unwrap_or_else(parameter);
        threads.saturating_sub(1)
    }
}
