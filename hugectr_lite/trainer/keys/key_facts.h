// What the parser says of the keys of a config: which it knows, what they take, which must be
// there, what an absent one stands for. It is asked by small configs that are read again and again,
// with one value of a wrong kind, or one key less.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace hlite::trainer {

// Of a key in one kind of object. A variant is what the kinds of one object differ in: the type of
// an optimizer, of an embedding or of a dense layer, the format of the Data layer.
struct KeyFacts {
  struct Variant {
    std::string takes = {};  // in the words of the parser's messages; empty: anything
    bool required = true;    // in all samples of the variant
    // What an absent one stands for, as JSON; several: it depends on something.
    std::vector<std::string> otherwise = {};
  };
  std::map<std::string, Variant> variants;
};

struct BlockFacts {
  std::vector<std::string> variants;  // of the object
  std::map<std::string, KeyFacts> keys;
};

struct ConfigFacts {
  std::map<std::string, BlockFacts> blocks;    // by the names of key_meanings.h
  std::map<std::string, std::string> refused;  // keys of other versions: what to do instead
};

// Throws Error where a sample is none.
ConfigFacts ask_parser();

}  // namespace hlite::trainer
