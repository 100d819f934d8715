# SPDX-License-Identifier: MIT
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.layout import basic_layout
from conan.tools.files import copy, load

ROOT = os.path.join("..", "..")


class RotorlinConan(ConanFile):
    name = "rotorlin"
    license = "MIT"
    description = "Linear layers made of Clifford rotors, and compression of transformers by shared dictionaries"
    topics = ("geometric-algebra", "clifford", "neural-network", "compression", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, ROOT, "include", "rotorlin", "core", "version.hpp"))
        self.version = re.search(r'ROTORLIN_VERSION_STRING "([0-9.]+)"', header).group(1)

    def export_sources(self):
        root = os.path.join(self.recipe_folder, ROOT)
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def requirements(self):
        self.requires("eigen/[>=3.4 <6]", transitive_headers=True)
        self.requires("nlohmann_json/[>=3.11 <4]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        basic_layout(self)

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        copy(self, "*.hpp", os.path.join(self.source_folder, "include"), os.path.join(self.package_folder, "include"))

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "rotorlin")
        self.cpp_info.set_property("cmake_target_name", "rotorlin::rotorlin")
        self.cpp_info.set_property("pkg_config_name", "rotorlin")
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
