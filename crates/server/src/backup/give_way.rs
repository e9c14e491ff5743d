//! The priority of work that reads, writes or removes much beside those whom a server serves.

use std::thread;

use rustix::process::setpriority_process;

/// The nice value of a thread that runs when no other one does, or a little.
const LAST: i32 = 19;

/// Gives this thread, and those that it makes, the lowest priority at the processors, and with it at the disk where the kernel's
/// scheduler for it knows any. There is no way back.
pub fn give_way() {
    // Everybody may lower themselves. Where a kernel refuses it nevertheless, a copy that is not as quiet is still one.
    let _ = setpriority_process(None, LAST);
}

/// Does the work on a thread that has given way, and returns when it is done.
pub fn aside<T: Send>(work: impl Fn() -> T + Sync) -> T {
    let lowered = || {
        give_way();
        work()
    };
    let done = thread::scope(|scope| {
        let aside = thread::Builder::new().name("aside".into());
        let thread = aside.spawn_scoped(scope, lowered).ok()?;
        thread.join().ok()
    });
    // Without a thread of its own the work is done all the same.
    done.unwrap_or_else(work)
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    fn priority() -> i32 {
        getpriority_process(None).unwrap()
    }

    #[test]
    fn a_thread_that_gives_way_is_behind_the_others() {
        let before = priority();
        let lowered = thread::spawn(|| {
            give_way();
            [priority(), thread::spawn(priority).join().unwrap()]
        });
        assert_eq!(lowered.join().unwrap(), [LAST, LAST]);
        assert_eq!(aside(priority), LAST);
        assert_eq!(priority(), before);
    }
}
