"""The C++ library for Conan 2: `conan create packaging/conan`, in this tree.

What it is built with comes from the system's packages, see docs/decisions/0001-flatbuffers-from-the-system.md and
docs/decisions/0006-codecs-from-the-system.md. Conan installs them if it may:
`-c tools.system.package_manager:mode=install`.

Arrow Flight, UCX and libfabric are left out: the package has the same parts, whatever the machine has that builds it.
"""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.system.package_manager import Apt, Dnf

TREE = Path(__file__).resolve().parents[2]


class Crossdock(ConanFile):
    name = "crossdock"
    description = "Arrays and tables from one library, process or machine to another, without a copy"
    license = "Apache-2.0"
    homepage = url = "https://github.com/crossdock-project/crossdock"
    topics = ("arrow", "dlpack", "shared-memory", "zero-copy", "ipc")
    package_type = "library"
    settings = ("os", "arch", "compiler", "build_type")
    options = {"shared": [True, False], "fPIC": [True, False]}  # noqa: RUF012  (Conan reads the class)
    default_options = {"shared": True, "fPIC": True}  # noqa: RUF012
    implements = ("auto_shared_fpic",)

    def set_version(self):
        text = (TREE / "CMakeLists.txt").read_text()
        self.version = re.search(r"project\(crossdock VERSION ([0-9.]+)", text)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "README.md", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, src=str(TREE), dst=self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)

    def system_requirements(self):
        Apt(self).install(["flatbuffers-compiler", "libflatbuffers-dev", "liblz4-dev", "libzstd-dev", "libssl-dev"])
        Dnf(self).install(["flatbuffers-compiler", "flatbuffers-devel", "lz4-devel", "libzstd-devel", "openssl-devel"])

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["CROSSDOCK_BUILD_TESTS"] = False
        toolchain.cache_variables["CROSSDOCK_BUILD_BENCH"] = False
        toolchain.cache_variables["CROSSDOCK_FLIGHT"] = False
        toolchain.cache_variables["CROSSDOCK_UCX"] = False
        toolchain.cache_variables["CROSSDOCK_FABRIC"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=str(Path(self.package_folder) / "licenses"))
        CMake(self).install()

    def package_info(self):
        # The library has its own files for CMake and pkg-config.
        self.cpp_info.set_property("cmake_find_mode", "none")
        # For what doesn't use those: the two libraries, each with the name of its pkg-config file.
        library, c = self.cpp_info.components["crossdock"], self.cpp_info.components["crossdock_c"]
        library.libs, c.libs = ["crossdock"], ["crossdock_c"]
        library.builddirs = ["lib/cmake/crossdock"]
        library.set_property("pkg_config_name", "crossdock")
        c.set_property("pkg_config_name", "crossdock_c")
        c.requires = ["crossdock"]
        if not self.options.shared:
            library.system_libs = ["lz4", "zstd", "ssl", "crypto", "pthread", "dl"]
            c.system_libs = ["stdc++"]
