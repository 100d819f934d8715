# SPDX-License-Identifier: MIT
# Stands for the old find modules that projects carry along: it finds a version and a folder, and makes no target.
set(nlohmann_json_FOUND TRUE)
set(nlohmann_json_VERSION 3.2)
set(nlohmann_json_INCLUDE_DIR /nowhere)
