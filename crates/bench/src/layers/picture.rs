//! The layered table as a picture: a bar a line, as long as the whole, split by the layers' shares.

use std::fmt::Write as _;

use super::table::{Band, Line, PARTS, quantiles};

const WIDTH: u32 = 860;
const LEFT: u32 = 230;
const BAR_WIDTH: u32 = 500;
const BAR_HEIGHT: u32 = 18;
const STEP: u32 = 24;
/// Between one workload and the next.
const GAP: u32 = 14;
const TOP: u32 = 60;
/// Parts narrower than this have no figure in them.
const FIGURE_SHARE: f64 = 0.07;

/// In the order of [`PARTS`]: the colours of the console.
const COLORS: [&str; PARTS.len()] = ["#3b78c4", "#3d9a50", "#d99a2b", "#c8473f", "#9a9a9a"];

pub fn svg(lines: &[Line]) -> String {
    let mut bars = String::new();
    let mut y = TOP;
    for line in lines {
        for (name, band) in quantiles(line) {
            bar(
                &mut bars,
                y,
                &format!("{}, {} conn., {name}", line.workload, line.connections),
                band,
            );
            y += STEP;
        }
        y += GAP;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"24\" font-size=\"15\">Where the time of an operation goes in the server</text>\n\
         {legend}{bars}</svg>\n",
        height = y + 8,
        legend = legend(),
    )
}

fn legend() -> String {
    let mut text = String::new();
    let mut x = LEFT;
    for (part, color) in PARTS.into_iter().zip(COLORS) {
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{color}\"/><text x=\"{}\" y=\"46\">{part}</text>",
            x + 17
        );
        x += 45 + 7 * part.len() as u32;
    }
    text
}

fn bar(out: &mut String, y: u32, label: &str, band: &Band) {
    let baseline = y + 13;
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{baseline}\" text-anchor=\"end\">{label}</text>",
        LEFT - 10
    );
    let mut x = f64::from(LEFT);
    for ((part, color), us) in PARTS.into_iter().zip(COLORS).zip(band.parts_us()) {
        let share = us / band.wall_us;
        let width = share * f64::from(BAR_WIDTH);
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR_HEIGHT}\" fill=\"{color}\">\
             <title>{part}: {us:.1} us, {:.0} %</title></rect>",
            100.0 * share
        );
        if share >= FIGURE_SHARE {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{baseline}\" text-anchor=\"middle\" fill=\"#ffffff\">{:.0} %</text>",
                x + width / 2.0,
                100.0 * share
            );
        }
        x += width;
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{baseline}\">{:.1} us</text>",
        LEFT + BAR_WIDTH + 10,
        band.wall_us
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_whole_and_names_its_parts() {
        let mut phases_us = [0.0; quarry_timing::PHASE_COUNT];
        phases_us[quarry_timing::Phase::Send as usize] = 60.0;
        let band = || Band {
            wall_us: 100.0,
            phases_us,
            trip_us: 120.0,
        };
        let line = Line {
            workload: "point query",
            connections: 1,
            operations: 10,
            bands: [band(), band()],
        };
        let picture = svg(&[line]);
        let widths: f64 = picture
            .split("width=\"")
            .skip(1)
            .filter_map(|rest| rest.split_once('"')?.0.parse::<f64>().ok())
            .filter(|width| [0.0, 300.0, 200.0].contains(width))
            .sum();
        assert_eq!(widths, 2.0 * f64::from(BAR_WIDTH));
        assert!(picture.contains("wire: 60.0 us, 60 %") && picture.contains(">100.0 us</text>"));
    }
}
