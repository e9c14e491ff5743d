//! Timing that is switched off leaves the wall time and nothing else. A process of its own, because
//! the switch is global.

use std::thread::sleep;
use std::time::{Duration, Instant};

use quarry_timing::{OperationKind, Phase, Window};

#[test]
fn an_operation_that_is_not_timed_has_a_wall_time_and_no_phases() {
    quarry_timing::set_enabled(false);
    quarry_timing::begin_operation(Instant::now());
    {
        let _scope = quarry_timing::phase(Phase::Execute);
        quarry_timing::add(Phase::Send, 1);
        sleep(Duration::from_millis(2));
    }
    let breakdown = quarry_timing::end_operation(OperationKind::Find);
    assert!(breakdown.wall_ns >= 2_000_000);
    assert_eq!(breakdown.unattributed_ns, breakdown.wall_ns);
    assert_eq!(breakdown.entered().count(), 0);
    assert!(quarry_timing::kinds(Window::SinceStart).is_empty());

    quarry_timing::set_enabled(true);
    quarry_timing::begin_operation(Instant::now());
    drop(quarry_timing::phase(Phase::Execute));
    quarry_timing::end_operation(OperationKind::Find);
    let report = quarry_timing::kinds(Window::SinceStart);
    assert_eq!(report.len(), 1);
    assert_eq!(report[0].times.phases[0].phase, Phase::Execute);
}
