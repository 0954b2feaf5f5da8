// What kind of feature a column is of which no schema and no option says it: the one rule for all
// programs. What is left of it is a question, which csv_prep asks instead of guessing.
//
//   a column of                                                       is
//   numbers in a writing of people ("1,234", "$5"), of many values    a question
//   a count of the rows                                               left out
//   another value in every row, texts or under the name of an id      left out
//   other texts, numbers with leading zeros, few values               categories
//   numbers under the name of an id: "id", "user_id", "zip"           categories
//   a value with a fraction or below 0                                numbers
//   whole numbers under the name of a quantity: "age", "n_clicks"     numbers
//   two digits, unless they are nearly all from 0 or 1 on             numbers: ages, hours
//   a standard deviation below kNarrow of the range                   numbers: a bell or a long tail
//   other whole numbers                                               a question
//
// Few values are ColumnFacts::kFewValues. Ids that were handed out in order, or drawn, fill their
// range evenly: their deviation is 0.29 of it, in MovieLens and Last.fm 0.18 to 0.43. That of a
// bell of 1,000 rows and more, and of counts and amounts with a tail, is below 1/7.
#pragma once

#include <string>

#include "hugectr_lite/preparation/csv/column_facts.h"

namespace hlite::prep {

enum class ColumnKind { kLeftOut, kCategory, kNumber, kUnclear };

struct KindGuess {
  ColumnKind kind = ColumnKind::kCategory;
  // Why it is left out; what was found and what to write where it is unclear; else what a person
  // might want to know, or nothing.
  std::string note = {};
  bool by_spread = false;  // whole numbers that nothing but their deviation makes quantities
};

// `name`: in the header; "": none. `header`: there is one. `option`: the column as options have it.
KindGuess guess_kind(const ColumnFacts& facts, const std::string& name, bool header,
                     const std::string& option);

// Numbers with a few other texts, which may be spellings of a missing value.
bool is_mostly_numbers(const ColumnFacts& facts);

}  // namespace hlite::prep
