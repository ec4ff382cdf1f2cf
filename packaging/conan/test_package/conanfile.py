"""Builds and runs a program in C++ and one in C against the package that Conan made."""

from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class UsesCrossdock(ConanFile):
    settings = ("os", "arch", "compiler", "build_type")
    generators = ("CMakeToolchain", "CMakeDeps", "VirtualRunEnv")

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            folder = Path(self.build_folder, self.cpp.build.bindir)
            for program in ("uses_crossdock", "uses_crossdock_c"):
                self.run(str(folder / program), env="conanrun")
