//! Any stages as a pipeline: they are refused, or have a plan.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quarry_query::expression::ExpressionContext;
use quarry_query::pipeline::Pipeline;

#[path = "../request_lines.rs"]
mod request_lines;

fuzz_target!(|text: &str| {
    let Some((request, _)) = request_lines::parse(text) else {
        return;
    };
    if let Some(stages) = request.get("pipeline").and_then(|value| value.as_array()) {
        let _ = Pipeline::parse(stages, &ExpressionContext::default());
    }
});
