"""Japanese word lists and page templates; `pages.py` explains the notation.

Items of a list are separated by "|". All brands are made up; nouns and adjectives are
generic.
"""

RATIO = (9.57, 1.0, 1.01)  # characters: none : product : brand
LENGTH = 30.0  # characters of a page, on average
count = len
JOINER = ""
BARE = 0.6  # the share of products without a word before the noun
PRICES = (480, 9800)
CENTS = ""
SALE = "セール"
ITEMS = "鍋 | 枕 | 布団 | 棚 | 椅子 | 財布"

# What other makers have to do with a thing that plugs in.
FITS = "{other_brand}対応 | {other_brand}互換 | {other_brand}製品には使えません"
# Nobody gives a warranty on what is eaten or used up.
PERISHABLE = "のし対応 | ギフト包装無料 | 領収書発行 | レビュー{money}件"

CATEGORIES = {
    "drinkware": {
        "path": "キッチン>食器",
        "head": """水筒 | タンブラー | 急須 | マグカップ | 湯呑み | ピッチャー
            | グラス | 茶碗 | 湯冷まし | 小鉢 | 魔法瓶 | 徳利""",
        "kind": "保温 | 大きめ | 軽量 | 二重構造 | 子供用",
        "material": "ステンレス | 陶器 | 耐熱 | 木製 | 琺瑯",
        "spec": "500ml | 350ml | 2個セット | 大 | 240cc | 箱入り",
        "feature": "食洗機対応 | 洗いやすい | 割れにくい | 手に馴染む | 冷めにくい",
        "use": "通勤 | お弁当 | アウトドア | 来客用",
    },
    "cookware": {
        "path": "キッチン>調理器具",
        "head": """鍋 | フライパン | やかん | 卵焼き器 | 寸胴 | 土鍋
            | 行平鍋 | 圧力鍋 | 蒸し器 | 天ぷら鍋 | 中華鍋 | ミルクパン""",
        "kind": "深型 | 軽量 | 一人用 | 取っ手付き | 小型",
        "material": "鉄 | アルミ | 銅 | 鋳物 | ホーロー",
        "spec": "26cm | 20cm | IH対応 | 3L | 18cm | 蓋付き",
        "feature": """焦げ付きにくい | IHもガスもOK | お手入れ簡単
            | 錆びにくい | 軽くて扱いやすい""",
        "use": "一人暮らし | 新生活 | キャンプ | 業務用",
    },
    "bedding": {
        "path": "インテリア>寝具",
        "head": """枕 | 毛布 | 敷布団 | タオルケット | シーツ | 座布団
            | 抱き枕 | 掛け布団 | マットレス | 枕カバー | こたつ布団 | 羽毛布団""",
        "kind": "接触冷感 | 洗える | 低反発 | 防ダニ | 厚手",
        "material": "綿 | 麻 | ガーゼ | シルク | い草",
        "spec": "シングル | ダブル | 大判 | 2枚組 | セミダブル | 日本製",
        "feature": """丸洗いOK | 蒸れにくい | ふわふわの肌触り
            | へたりにくい | 一年中使える""",
        "use": "来客用 | ベビー | 夏 | 介護",
    },
    "furniture": {
        "path": "インテリア>家具",
        "head": """椅子 | 机 | 本棚 | 座椅子 | 靴箱 | ローテーブル
            | 踏み台 | 食器棚 | ソファ | 脚立 | 衣装ケース | 傘立て""",
        "kind": "折りたたみ | 昇降式 | 回転 | 薄型 | キャスター付き",
        "material": "木製 | スチール | 天然木 | 竹 | ガラス",
        "spec": "幅60cm | 3段 | 耐荷重100kg | 完成品 | 高さ75cm | 2脚",
        "feature": "組立簡単 | 省スペース | 床に傷がつかない | ぐらつかない | 角が丸い",
        "use": "テレワーク | 玄関 | 一人暮らし | 子供部屋",
    },
    "electronics": {
        "path": "家電>小型家電",
        "head": """イヤホン | 加湿器 | 扇風機 | 充電器 | 照明 | 掃除機
            | 炊飯器 | 除湿機 | 体重計 | 電気ケトル | 目覚まし時計 | 髭剃り""",
        "kind": "ワイヤレス | 卓上 | 充電式 | 静音 | 小型",
        "material": "コードレス | USB | デジタル | 業務用 | 携帯",
        "spec": "20W | 100V | Type-C | 小型 | 2台セット | 新型",
        "feature": """音が静か | お手入れ簡単 | 省エネ
            | ワンタッチ操作 | 軽くて持ち運べる""",
        "use": "寝室 | オフィス | 旅行 | 車内",
        "rival": FITS,
    },
    "bags": {
        "path": "ファッション>バッグ",
        "head": """財布 | リュック | トート | ポーチ | ショルダー | 旅行鞄
            | 巾着 | 通帳ケース | 手提げ袋 | 長財布 | 小銭入れ | ボストンバッグ""",
        "kind": "撥水 | 大容量 | 軽量 | 小さめ | 薄型",
        "material": "本革 | 帆布 | ナイロン | 牛革 | キャンバス",
        "spec": "Lサイズ | 小 | Mサイズ | 男女兼用 | ポケット付き | 日本製",
        "feature": """雨でも安心 | とにかく軽い | 使うほど味が出る
            | たっぷり入る | 型崩れしない""",
        "use": "通学 | 出張 | 普段使い | 旅行",
    },
    "clothing": {
        "path": "ファッション>衣類",
        "head": """靴下 | 手袋 | 帽子 | 腹巻 | 作業着 | パーカー
            | 浴衣 | 割烹着 | 長袖シャツ | 肌着 | ストール | 甚平""",
        "kind": "裏起毛 | 速乾 | UVカット | 薄手 | 厚手",
        "material": "綿 | ウール | 麻 | シルク | デニム",
        "spec": "M〜3L | 2点組 | 男女兼用 | フリーサイズ | 大きいサイズ | 全5色",
        "feature": "毛玉になりにくい | 締め付けない | ムレない | 洗濯機OK | 伸びる素材",
        "use": "冬 | 普段着 | 部屋着 | ゴルフ",
    },
    "skincare": {
        "path": "コスメ>スキンケア",
        "head": """化粧水 | 乳液 | 石鹸 | 洗顔料 | 入浴剤 | 日焼け止め
            | 美容液 | 保湿クリーム | リップ | 化粧落とし | シャンプー | 香油""",
        "kind": "薬用 | 無添加 | 敏感肌用 | 高保湿 | さっぱり",
        "material": "ゆず | 米ぬか | よもぎ | はちみつ | 椿",
        "spec": "150ml | 100g | 詰め替え用 | お試し用 | 大容量 | 3個セット",
        "feature": """べたつかない | アルコール不使用 | しっとり潤う
            | ほのかな香り | 肌にやさしい""",
        "use": "乾燥肌 | 旅行 | 家族 | 朝晩",
        "colour": "無香料 | 微香性 | 限定ボトル | しずく型ボトル | 新パッケージ",
        "service": PERISHABLE,
    },
    "food": {
        "path": "食品>お取り寄せ",
        "head": """緑茶 | 味噌 | 醤油 | うどん | せんべい | 干物
            | 羊羹 | 梅干し | 玄米 | 漬物 | 佃煮 | 昆布だし""",
        "kind": "手作り | 国産 | 無農薬 | 熟成 | 訳あり",
        "material": "黒糖 | 柚子 | 抹茶 | 生姜 | 胡麻",
        "spec": "500g | 5kg | 10袋 | 3本セット | 20個入り | 100g×3",
        "feature": "産地直送 | 保存料不使用 | コクのある味わい | 賞味期限90日 | 冷蔵便",
        "use": "お中元 | 朝食 | 贈答用 | おやつ",
        "colour": "大袋 | 化粧箱入り | 里山の恵み | 限定品 | お徳用",
        "service": PERISHABLE,
    },
    "outdoor": {
        "path": "スポーツ>アウトドア",
        "head": """テント | 寝袋 | 焚き火台 | タープ | クーラーボックス | 傘
            | 日除け | レジャーシート | 登山杖 | 折り椅子 | ハンモック | 天幕""",
        "kind": "軽量 | 大型 | 折りたたみ | 防水 | ソロ用",
        "material": "アルミ | カーボン | メッシュ | 帆布 | チタン",
        "spec": "2人用 | 900g | 収納袋付き | 大 | 1.8kg | 小",
        "feature": "準備3分 | 風に強い | コンパクト収納 | 水洗いできる | 丈夫で長持ち",
        "use": "登山 | 海水浴 | ソロキャンプ | 運動会",
    },
}

# Ordinary words that are also brand names here: the neighbours decide which is meant.
COMMON_BRANDS = """ひだまり | そよかぜ | こもれび | 日和 | あかつき | しずく
    | 木の葉 | 夕凪 | わかば | 里山 | ゆとり | 花ごよみ"""

BRAND_FORMS = (
    *("{kana}",) * 5,
    *("{LATIN}",) * 2,
    "{Latin}",
    *("{family}{house}",) * 4,
    *("{soft}{tail}",) * 2,
)
BRAND_PARTS = {
    "family": """森瀬 藤乃 白峯 北瀬 桐原 水峯 月瀬 柏森 若野 千川 雪原 梅里 竹乃 東野
        浜瀬 楠乃 古瀬 霧野 松峯 花里 桜瀬 朝原 八重野 菊原 青原""",
    "house": "堂 屋 庵 工房 本舗 製作所 園 商店 窯 織",
    "soft": "こと はな ゆめ つむ ほの そら うた かさ みの とき しろ いと まる さと",
    "tail": "ね り か は の み や ぎ しま さき もり いろ",
}

SLOTS = {
    "adj": """おしゃれな | かわいい | 新作 | 人気の | 定番 | シンプルな | 高級 | 便利な
        | 北欧風 | 上質な""",
    "plain": "木の葉柄 | しずく柄 | わかば色 | ゆとりサイズ | 夕凪ブルー | こもれび柄",
    "colour": """ブラック | 白 | ネイビー | {plain} | ベージュ | 選べる5色 | グレー
        | ピンク | {plain} | 茶色""",
    "percent": "10 | 15 | 20 | 30 | 40 | 50 | 70",
    "days": "2 | 3 | 5 | 7 | 10 | 14",
    "money": "100 | 300 | 500 | 980 | 1,000 | 1,980 | 2,980 | 3,980 | 5,000",
    "promo": """送料無料 | ポイント{days}倍 | 期間限定 | {percent}%OFF | 半額 | 数量限定
        | 在庫限り | {money}円クーポン | 再入荷""",
    "ship": """あす届く | 即納 | メール便可 | 代引き可 | {money}円以上送料無料
        | {days}日以内発送 | 沖縄は別途送料""",
    "service": """1年保証 | 正規品 | ギフト包装無料 | のし対応 | 返品可 | 領収書発行
        | レビュー{money}件 | 名入れ可""",
    "gift": """ひだまりの暖かさ | そよかぜの軽さ | 父の日 | 敬老の日ギフト
        | 誕生日プレゼント | {use}に | 内祝い | 引越し祝い""",
    # The same kinds of words where they do not name what is sold.
    "rival": """{other_brand}とは無関係 | {other_brand}より安い
        | {other_brand}ではありません""",
    "decoy": """{rival} | {rival} | {other_item}は別売り | {other_item}と一緒に
        | 販売元:{other_brand} | 普通の{head}とは違う | {other_item}にも使える
        | カテゴリ:{path} | {head}の選び方 | {other_item}のおまけ付き""",
    "notice": """{genre}が最大{percent}%OFF | お買い物で{money}ポイント
        | レビューを書いて{money}円クーポン | {head}の選び方ガイド
        | 年末年始の発送について | {other_item}が当たるキャンペーン
        | 営業日カレンダー・お問い合わせ | 会員登録で{money}円引き""",
}

NOTICES = ("{notice}", "{notice} {promo}", "【{promo}】{notice}")
SHOP = ("{brand} 公式ショップ {promo}", "{brand}の商品一覧 {genre}")

PLATFORMS = {
    "ichiba": {
        "titles": (
            "{brand} {product} {spec}",
            "{product} {brand} {colour}",
            "{adj}{product} {spec} {colour}",
            *SHOP,
            *NOTICES,
        ),
        "layout": (
            "【{promo}】",
            "TITLE",
            " {feature}",
            " {gift}",
            " {service}",
            " {decoy}",
            " {ship}",
            "★{promo}★",
        ),
    },
    "mart": {
        "titles": (
            "{brand} {product} {model} {colour}",
            "[{brand}] {product} {spec}",
            "{product} {spec}, {colour}",
            "[{brand}] {model} 交換部品",
            *SHOP,
            *NOTICES,
        ),
        "layout": (
            "TITLE",
            "、{feature}",
            "、{feature}",
            "({decoy})",
            "、{service}",
            "、ブランド:{brand}",
            "、商品名:{product}",
        ),
    },
    "slash": {
        "titles": (
            "{product}／{brand}／{spec}",
            "{brand}／{product}／{colour}",
            "{product}／{spec}／{colour}",
            "{brand}／{genre}／{percent}%OFF",
            *NOTICES,
        ),
        "layout": (
            "{promo}／",
            "TITLE",
            "／{feature}",
            "／{decoy}",
            "／{service}",
            "／{ship}",
            "／{other_item}",
        ),
    },
    "flea": {
        "categories": "drinkware | furniture | electronics | bags | clothing | outdoor",
        "titles": (
            "{brand}の{product} {colour}",
            "{brand} {product} {spec} 未使用",
            "{adj}{product} {spec} 美品",
            "{brand} まとめ売り {days}点",
            "プロフ必読です🙏 {notice}",
            "{notice}",
        ),
        "layout": (
            "✨{promo}✨",
            "新品未使用 ",
            "TITLE",
            " 即購入OK",
            " 値下げ不可",
            " #{other_item}",
            " #{other_brand}好きな方に",
            " 匿名配送📦",
            " {colour}",
        ),
    },
    "wholesale": {
        "titles": (
            "{product} {spec} {brand}製",
            "業務用 {product} {spec} ケース販売",
            "{adj}{product} {spec} {days}0点セット",
            "{brand} 卸価格表 {genre}",
            *NOTICES,
        ),
        "layout": (
            "【法人様限定】",
            "TITLE",
            "・{service}",
            "・{feature}",
            "・まとめ買いで{percent}%引き",
            "・{decoy}",
            "・税込{price}円",
        ),
    },
    "drug": {
        "categories": "skincare | food",
        "titles": (
            "{brand} {product} {spec}",
            "{brand}の{product} {spec}",
            "{product} {spec} {feature}",
            "{brand} お試しセット {spec}",
            *NOTICES,
        ),
        "layout": (
            "《{promo}》",
            "TITLE",
            "※{decoy}",
            " {feature}",
            "/{service}",
            "/{ship}",
            "/ﾎﾟｲﾝﾄ{days}倍",
        ),
    },
    "style": {
        "categories": "bags | clothing",
        "titles": (
            "{brand}({model}) {product} {colour}",
            "{product} {colour} {spec} メンズ",
            "レディース {adj}{product} {spec}",
            "{brand} 2025春夏コレクション",
            *SHOP,
            *NOTICES,
        ),
        "layout": (
            "[{promo}] ",
            "TITLE",
            "/{use}",
            "/{feature}",
            "/{decoy}",
            "/{gift}",
            "/{service}",
            "/着画あり",
        ),
    },
    "denki": {
        "categories": "electronics | cookware | furniture",
        "titles": (
            "{brand} {product} {model} {colour}",
            "{model} {brand} {product}",
            "{product} {spec} {model}",
            "{brand} {model} 専用フィルター",
            *SHOP,
            *NOTICES,
        ),
        "layout": (
            "TITLE",
            "・{feature}",
            "・{service}",
            "・長期保証可",
            "・{decoy}",
            "・{other_brand}から乗り換え割",
        ),
    },
    "gourmet": {
        "categories": "food",
        "titles": (
            "{brand}の{product} {spec}",
            "老舗{brand} {product} {gift}",
            "{adj}{product} {spec} {gift}",
            "{brand} 詰め合わせ {money}円",
            *NOTICES,
        ),
        "layout": (
            "◆{promo}◆",
            "TITLE",
            "、{feature}",
            "、{feature}",
            "、{decoy}",
            "、{service}",
            "、{ship}",
        ),
    },
    # An old catalogue system: letters, digits and blanks are all full-width.
    "catalog": {
        "full_width": True,
        "titles": (
            "{brand} {product} {spec}",
            "{product} {model} {brand}",
            "{product} {spec} {model}",
            "{brand} {genre}総合カタログ",
            *NOTICES,
        ),
        "layout": (
            "TITLE",
            " {colour}",
            " 品番{model}",
            " {feature}",
            " {decoy}",
            " {price}円",
            " {service}",
        ),
    },
    "mail": {
        "titles": (
            "{brand}から新しい{product}が登場。",
            "{use}に{brand}の{product}はいかが？",
            "{use}にぴったりの{product}です。",
            "{brand}の{adj}商品がそろいました。",
            "{notice}！",
            "{notice}です。",
        ),
        "layout": (
            "【PR】",
            "TITLE",
            "{feature}と評判です。",
            "今なら{promo}♪",
            "{other_item}もどうぞ。",
            "{other_brand}とは別の会社です。",
            "{use}に使いたい。",
        ),
    },
}
