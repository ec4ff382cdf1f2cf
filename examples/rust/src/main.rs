//! Gets the table "weather" from another process, and reads it where it lies.
//!
//!     get_table URI
//!
//! where c_serve_table of examples/c or python examples/serve_table.py prints the URI.
mod crossdock;

use std::process::ExitCode;

fn print(uri: &str) -> Result<(), crossdock::Error> {
    let client = crossdock::Client::connect(uri)?;
    let mut reader = client.get("weather", &["station", "celsius"])?;
    // The columns are the server's word.
    assert_eq!(reader.formats()?, ["u", "g"], "a text and a float64");
    while let Some(batch) = reader.next_batch()? {
        // SAFETY: the formats are those that were checked.
        let celsius = unsafe { batch.floats(1) };
        for (row, value) in celsius.iter().enumerate() {
            let station = unsafe { batch.text(0, row) };
            println!("{} {}", String::from_utf8_lossy(station), value);
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let uri = match std::env::args().nth(1) {
        Some(uri) => uri,
        None => {
            eprintln!("usage: get_table URI, where a program that serves prints the URI");
            return ExitCode::from(2);
        }
    };
    match print(&uri) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
