//! The priority of a tool that reads and writes much beside a server.

use rustix::process::setpriority_process;

/// The nice value of a thread that runs when no other one does, or a little.
const LAST: i32 = 19;

/// Gives this thread, and those that it makes, the lowest priority at the processors, and with it at the disk where the kernel's
/// scheduler for it knows any. There is no way back.
pub fn give_way() {
    // Everybody may lower themselves. Where a kernel refuses it nevertheless, a copy that is not as quiet is still one.
    let _ = setpriority_process(None, LAST);
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn a_thread_that_gives_way_is_behind_the_others() {
        let before = getpriority_process(None).unwrap();
        let lowered = thread::spawn(|| {
            give_way();
            let born = thread::spawn(|| getpriority_process(None).unwrap());
            [getpriority_process(None).unwrap(), born.join().unwrap()]
        });
        assert_eq!(lowered.join().unwrap(), [LAST, LAST]);
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
