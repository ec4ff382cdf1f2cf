//! Tells the linker where libcrossdock_c is, as pkg-config says, and the program where to find it when it runs.
use std::process::Command;

fn main() {
    let asked = Command::new("pkg-config")
        .args(["--variable=libdir", "crossdock_c"])
        .output();
    let folder = match asked {
        Ok(answer) if answer.status.success() => {
            String::from_utf8_lossy(&answer.stdout).trim().to_string()
        }
        _ => panic!(
            "pkg-config doesn't find crossdock_c: set PKG_CONFIG_PATH to PREFIX/lib/pkgconfig"
        ),
    };
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
}
