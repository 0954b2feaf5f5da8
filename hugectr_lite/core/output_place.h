// Places that a program writes to: how they are opened, and the temporary places next to them.
//
// In a folder that others can write, someone may plant a link under a name that we are about to
// write, so that we overwrite the link's target with our rights. No door follows such a link; one
// of our own, of the folder's owner or of root is followed, and so is each in a folder that only
// its owner can write (/dev/stdout).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "hugectr_lite/core/file.h"

namespace hlite {

// Opens `path` for writing with open(2)'s `flags` (O_CLOEXEC is added) and mode 0666. Where that
// fails the descriptor is negative and errno says why. Throws FileError for a planted link.
FileDescriptor open_output(const std::string& path, int flags);
// Throws FileError where `path` is a planted link, or is somebody else's in a sticky folder, where
// it cannot be replaced. Makes nothing.
void expect_output_place(const std::string& path);

// A new, empty file or directory "<place>.tmp.<pid>.<16 random hex digits>", whose name nobody
// could foresee. Those that killed processes left for this place are removed first. Throws
// FileError.
std::string temporary_file(const std::string& place);
std::string temporary_directory(const std::string& place);
// Such a name, for what is renamed to it.
std::string temporary_name(const std::string& place);
// Removes the temporary places of processes that are gone, and of an earlier one with our own id,
// as far as this user may: what is left is no reason not to write.
void remove_stale(const std::string& place);

// A temporary_file(), filled by `write`, takes the place of `path`: whoever opens that finds all of
// the older file or all of the new one. Where something throws, `path` is what it was and nothing
// else stays. Throws FileError. The new name is not made durable.
void replace_file(const std::string& path,
                  const std::function<void(const std::string& temporary)>& write);
// The same with a text, which is made durable first.
void replace_file(const std::string& path, std::string_view text);

}  // namespace hlite
